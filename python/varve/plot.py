"""Charts for papers: a Results, Hits or a CSV file in, axes of matplotlib out.

    with varve.plot.style("usenix"):
        axes = varve.plot.waf(runs)
        varve.plot.save(axes, "waf.pdf", runs)

Each takes `axes=` to draw on, and returns the axes, which are the user's to change. Lines differ in colour (Okabe and
Ito's, told apart by nearly everybody) and in their dashes (which survive grey). Spread is that of seeds, least to most.
"""

import csv
import hashlib
import os
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Union

from varve._results import Hits, Results
from varve._tables import needed
from varve._timeline import Timeline

__all__ = ["heatmap", "latency_cdf", "mrc", "save", "style", "timeline", "waf"]

Rows = Union[Results, str, "os.PathLike[str]", Iterable[Mapping[str, Any]]]

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
# Width and height in inches, size of text in points.
_STYLES = {
    "ieee-column": (3.5, 2.2, 8),
    "usenix": (3.33, 2.1, 8),
    "wide": (7.0, 2.6, 8),
    "slides": (8.0, 4.5, 18),
}
# Units of swept numbers by the ends of their names: what they are drawn in.
_UNITS = {"bytes": (2**20, "MiB"), "ns": (1000, "µs"), "share": (0.01, "%")}


def _pyplot(what: str) -> Any:
    return needed("matplotlib.pyplot", what)


def style(name: str = "ieee-column") -> AbstractContextManager[None]:
    """What is drawn within has the size and the type of a column of a paper, or of slides."""
    if name not in _STYLES:
        raise ValueError(f"style `{name}`: expected one of {', '.join(_STYLES)}")
    width, height, points = _STYLES[name]
    matplotlib = needed("matplotlib", "style()")
    lines = needed("cycler", "style()").cycler(color=_COLOURS, linestyle=_DASHES)
    context: AbstractContextManager[None] = matplotlib.rc_context(
        {
            "figure.figsize": (width, height),
            "figure.constrained_layout.use": True,
            "font.size": points,
            "axes.titlesize": points,
            "axes.labelsize": points,
            "xtick.labelsize": points - 1,
            "ytick.labelsize": points - 1,
            "legend.fontsize": points - 1,
            "legend.frameon": False,
            "legend.handlelength": 2.5,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.prop_cycle": lines,
            "lines.linewidth": points / 8,
            "lines.markersize": points / 2,
            # Texts stay texts.
            "pdf.fonttype": 42,
            "svg.fonttype": "none",
        }
    )
    return context


def _axes(axes: Any, what: str) -> Any:
    return axes if axes is not None else _pyplot(what).subplots()[1]


def _read(path: "str | os.PathLike[str]") -> list[dict[str, Any]]:
    """The rows of a file of `varve run --csv`."""

    def value(text: str) -> Any:
        try:
            return float(text) if text else None
        except ValueError:
            return text

    with open(path, newline="", encoding="utf-8") as lines:
        return [{name: value(text) for name, text in row.items()} for row in csv.DictReader(lines)]


def _rows(given: Rows) -> list[Mapping[str, Any]]:
    if isinstance(given, Results):
        return [*given.rows()]
    if isinstance(given, (str, os.PathLike)):
        return [*_read(given)]
    return [*given]


def _swept(rows: list[Mapping[str, Any]]) -> tuple[list[str], list[str]]:
    """Swept keys that have several values: those of texts, and those of numbers, which are named after them."""
    keys = []
    for name in rows[0]:
        if name == "seed":
            break
        if len({row[name] for row in rows}) > 1:
            keys.append(name)
    numbers = [name for name in keys if name.rpartition(".")[2] in _UNITS and name.rpartition(".")[0] in rows[0]]
    return [name for name in keys if name not in numbers], numbers


def _spread(values: list[float]) -> tuple[float, float, float]:
    """The mean, and how far below and above it there are values."""
    mean = sum(values) / len(values)
    return mean, mean - min(values), max(values) - mean


def waf(given: Rows, *, axes: Any = None, x: str | None = None) -> Any:
    """Write amplification: over a swept number if there is one, else as bars; a line for each of the other values.

    given: results, or the file of `varve run --csv`. x: the column of the axis, such as `buffer.size.bytes`.
    """
    rows = [row for row in _rows(given) if row.get("waf") is not None]
    if not rows:
        raise ValueError("no row has a waf: expected results of runs")
    texts, numbers = _swept(rows)
    if x is not None and x not in numbers:
        raise ValueError(f"x=`{x}`: expected one of {', '.join(numbers) or 'none: no number is swept'}")
    x = x or (numbers[0] if numbers else None)
    by = [key for key in texts if x is None or key != x.rpartition(".")[0]]
    lines: dict[str, dict[Any, list[float]]] = {}
    for row in rows:
        label = ", ".join(str(row[key]) for key in by) or "all"
        lines.setdefault(label, {}).setdefault(row[x] if x else 0, []).append(row["waf"])
    drawn = _axes(axes, "waf()")
    drawn.set_ylabel("write amplification")
    if x is None:
        spread = [_spread(values[0]) for values in lines.values()]
        errors = [[low for _, low, _ in spread], [high for _, _, high in spread]]
        drawn.bar(list(lines), [mean for mean, _, _ in spread], yerr=errors, capsize=2, color=_COLOURS[0])
        return drawn
    key, _, unit = x.rpartition(".")
    scale, name = _UNITS[unit]
    for label, values in lines.items():
        at = sorted(values)
        spread = [_spread(values[one]) for one in at]
        errors = [[low for _, low, _ in spread], [high for _, _, high in spread]]
        several = any(len(values[one]) > 1 for one in at)
        places, means = [one / scale for one in at], [mean for mean, _, _ in spread]
        drawn.errorbar(places, means, yerr=errors if several else None, label=label, marker=".", capsize=2)
    drawn.set_xlabel(f"{key}, {name}")
    if unit == "bytes":
        drawn.set_xscale("log", base=2)
        drawn.xaxis.set_major_formatter("{x:g}")
    if len(lines) > 1:
        drawn.legend()
    return drawn


def latency_cdf(given: Results, kind: str = "read", *, axes: Any = None, tail: bool = False) -> Any:
    """How many requests took how long at most: a line for each point, its seeds together.

    kind: read, write, flush or discard. tail: how many took longer, both axes logarithmic.
    """
    lines: dict[str, dict[float, int]] = {}
    for run in given.document()["results"]:
        found = run.get("latency_ns", {}).get(kind, {}).get("histogram")
        if found:
            label = " ".join(part for part in run["name"].split(" ") if not part.startswith("seed=")) or "all"
            counts = lines.setdefault(label, {})
            for edge, count in found:
                counts[edge] = counts.get(edge, 0) + count
    if not lines:
        raise ValueError(f"no run has a {kind} with a latency: expected another kind, or a replay with times")
    drawn = _axes(axes, "latency_cdf()")
    for label, counts in lines.items():
        all_of_them, below = sum(counts.values()), 0
        places, shares = [], []
        for edge in sorted(counts):
            below += counts[edge]
            places.append(edge / 1000)
            shares.append(1 - below / all_of_them if tail else below / all_of_them)
        if tail:
            # There is no place for 0.
            places, shares = places[:-1], shares[:-1]
        drawn.step(places, shares, where="post", label=label)
    drawn.set_xscale("log")
    drawn.set_xlabel(f"latency of a {kind}, µs")
    drawn.set_ylabel("share that takes longer" if tail else "share of requests")
    if tail:
        drawn.set_yscale("log")
    if len(lines) > 1:
        drawn.legend()
    return drawn


def mrc(given: Hits, *, axes: Any = None) -> Any:
    """Miss ratios over the size of the buffer: of each policy, and the curve of LRU if it was asked for."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in given.rows():
        if row["hit_ratio"] is not None:
            lines.setdefault(row["policy"], []).append((row["buffer_bytes"] / 2**20, 1 - row["hit_ratio"]))
    drawn = _axes(axes, "mrc()")
    if "curve" in given.document():
        points = [(point["entries"] * 4096 / 2**20, point["miss_ratio"]) for point in given.curve()]
        drawn.plot(*zip(*points), label="lru, all sizes", color="0.6", linestyle="-")
    for policy, points in lines.items():
        drawn.plot(*zip(*sorted(points)), label=policy, marker=".")
    drawn.set_xscale("log", base=2)
    drawn.xaxis.set_major_formatter("{x:g}")
    if lines:
        # The curve begins at one page, which is of interest to nobody.
        drawn.set_xlim(left=min(size for points in lines.values() for size, _ in points) / 4)
    drawn.set_xlabel("buffer, MiB")
    drawn.set_ylabel("miss ratio")
    drawn.legend()
    return drawn


def heatmap(given: Results, kind: str = "read", *, run: int = 0, axes: Any = None) -> Any:
    """How long requests took over the time of a run: the darker, the more of a window took that long.

    kind: read, write or flush. run: which one of the results.
    """
    found = given[run].get("series", {})
    windows = found.get(f"{kind}_latency", [])
    if "time_ns" not in found or not any(windows):
        raise ValueError(f"run {run} has no {kind} with a latency over time: expected another kind, or a longer replay with times")
    numpy = needed("numpy", "heatmap()")
    edges = found["latency_edges_ns"]
    counts = numpy.zeros((len(edges), len(windows)))
    for at, window in enumerate(windows):
        first, *requests = window or [0]
        counts[first : first + len(requests), at] = requests
    shares = counts / numpy.maximum(counts.sum(axis=0), 1)
    used = numpy.flatnonzero(counts.any(axis=1))
    low, high = int(used[0]), int(used[-1]) + 1
    # Each edge is the upper one of its bucket; the first bucket that is used begins at the one before.
    below = edges[low - 1] if low else edges[0] / 2
    drawn = _axes(axes, "heatmap()")
    mesh = drawn.pcolormesh(
        [0.0, *(at / 1e9 for at in found["time_ns"])],
        [edge / 1000 for edge in (below, *edges[low:high])],
        numpy.ma.masked_equal(shares[low:high], 0),
        cmap="Blues",
        vmin=0,
        rasterized=True,
    )
    drawn.set_yscale("log")
    drawn.set_xlabel("time, s")
    drawn.set_ylabel(f"latency of a {kind}, µs")
    drawn.figure.colorbar(mesh, ax=drawn, label="share of the window")
    return drawn


# What dies do, by the cause that waiting for it counts as.
_HUES = {
    "own": "#0072B2",
    "host_read": "#56B4E9",
    "host_program": "#009E73",
    "gc": "#D55E00",
    "erase": "#000000",
    "map": "#CC79A7",
    "metadata": "#E69F00",
}


def timeline(given: Timeline, *, axes: Any = None) -> Any:
    """What each die did in a window of time: a row for each, in colours of what waiting for it counts as."""
    rows = given.operations().rows()
    if not rows:
        raise ValueError("no die did anything in this window")
    drawn = _axes(axes, "timeline()")
    for cause, hue in _HUES.items():
        of = [row for row in rows if row["cause"] == cause]
        for die in sorted({row["die"] for row in of}):
            spans = [
                (row["start_ns"] / 1e6, (row["end_ns"] - row["start_ns"]) / 1e6) for row in of if row["die"] == die
            ]
            drawn.broken_barh(spans, (die - 0.4, 0.8), facecolors=hue, linewidth=0, rasterized=len(rows) > 2000)
        if of:
            drawn.plot([], [], color=hue, linestyle="-", linewidth=4, label=cause.replace("_", " "))
    drawn.set_yticks(range(len(given.dies)), given.dies)
    drawn.set_xlabel("time, ms")
    drawn.margins(x=0)
    drawn.legend(ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1))
    return drawn


def save(axes: Any, path: "str | os.PathLike[str]", *drawn: "Results | Hits") -> None:
    """Saves the figure of some axes; in it (PDF, SVG, PNG) stands which version and which documents were drawn."""
    said = []
    for one in drawn:
        digest = hashlib.sha256(one.json(deterministic=True).encode()).hexdigest()
        said.append(f"varve {one.document()['version']}, document sha256:{digest}")
    name = {".pdf": "Subject", ".svg": "Description", ".png": "Description"}.get(os.path.splitext(path)[1].lower())
    metadata = {"metadata": {name: "; ".join(said)}} if name and said else {}
    axes.figure.savefig(path, **metadata)

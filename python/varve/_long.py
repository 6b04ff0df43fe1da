"""Long tables of results: a row for each window of each run, or each bucket of its latencies.

Before the numbers stand the run (its row in `rows()`), what was swept, and the seed.
"""

from collections.abc import Iterator
from typing import Any

from varve._tables import Table, Tabular

# Kinds of requests, as documents name them.
KINDS = ("read", "write", "flush", "discard")

# Numbers of a window in the order of a table, and their units; those of `programs` are of its causes.
_WINDOW = {
    "host_read_units": "count",
    "host_write_units": "count",
    "host_write_bytes": "bytes",
    "programs.host": "count",
    "programs.gc": "count",
    "programs.tx": "count",
    "programs.map": "count",
    "programs.metadata": "count",
    "programs.padding": "count",
    "waf": "ratio",
    "free_blocks": "count",
    "gc_victims": "count",
    "gc_valid_at_choice": "count",
    "gc_stall_ns": "ns",
    "buffer_units": "count",
    "buffer_hits": "count",
    "buffer_dirty": "count",
    "read_p99_ns": "ns",
    "write_p99_ns": "ns",
}
# What is counted when it is asked for.
_ASKED = ("host_read_units", "host_write_units", "host_write_bytes", "buffer_units", "buffer_hits")
# Numbers of a kind of requests, and their units.
_LATENCY = {"count": "count", **dict.fromkeys("mean stddev min p50 p90 p99 p999 p9999 max".split(), "ns")}

Runs = list[tuple[list[Any], dict[str, Any]]]


def _head(rows: Tabular, documents: list[dict[str, Any]]) -> tuple[dict[str, str], Runs]:
    """The columns that say which run a row is of, and for each run their values beside all that is known of it."""
    columns = {"run": "count"}
    for name, unit in rows.columns().items():
        # What comes after the seed is what came out.
        columns[name] = unit
        if name == "seed":
            break
    names = list(columns)[1:]
    cells = [[at, *(row[name] for name in names)] for at, row in enumerate(rows.rows())]
    return columns, list(zip(cells, documents))


def _found(series: dict[str, Any], name: str) -> "list[Any] | None":
    """A column of the series of a run."""
    of, _, cause = name.partition(".")
    column = series.get(of)
    found: list[Any] | None = column.get(cause) if cause and column else column
    return found


def series(rows: Tabular, documents: list[dict[str, Any]]) -> Table:
    """A row for each window, and one for what came behind the last request."""
    columns, runs = _head(rows, documents)
    columns |= {"window": "count", "start_ns": "ns", "end_ns": "ns", "requests": "count", **_WINDOW}

    def windows(run: dict[str, Any]) -> Iterator[list[Any]]:
        found = run.get("series")
        if not found:
            return
        # Without times in an untimed replay.
        ends = found.get("time_ns") or [None] * len(found["waf"])
        numbers = [_found(found, name) or [None] * len(ends) for name in _WINDOW]
        each, last = found["requests_per_window"], found["requests_in_last_window"]
        for at, end in enumerate(ends):
            requests = last if at + 1 == len(ends) else each
            start = None if end is None else ends[at - 1] if at else 0
            yield [at, start, end, requests, *(column[at] for column in numbers)]
        drain = found.get("drain")
        if drain is None:
            return  # a document of before
        # Nothing is asked of a drive any more, whose numbers of that are 0 and not unknown.
        asked = {name: 0 for name, column in zip(_WINDOW, numbers) if name in _ASKED and column[0] is not None}
        yield [None, None, None, 0, *(asked.get(name, _found(drain, name)) for name in _WINDOW)]

    return Table(columns, [[*head, *window] for head, run in runs for window in windows(run)])


def latencies(rows: Tabular, documents: list[dict[str, Any]]) -> Table:
    """A row for each kind of requests."""
    columns, runs = _head(rows, documents)
    columns["op"] = "text"
    columns |= {name if unit == "count" else f"{name}_ns": unit for name, unit in _LATENCY.items()}
    cells = []
    for head, run in runs:
        for kind in KINDS:
            found = run.get("latency_ns", {}).get(kind)
            if found:
                cells.append([*head, kind, *(found.get(name) for name in _LATENCY)])
    return Table(columns, cells)


def causes(rows: Tabular, documents: list[dict[str, Any]]) -> Table:
    """A row for each percentile of each kind of requests."""
    columns, runs = _head(rows, documents)
    columns |= {"op": "text", "of": "text", "requests": "count", "mean_ns": "ns"}
    asked = [run["latency_ns"][kind]["by_cause"] for _, run in runs for kind in KINDS if _is_explained(run, kind)]
    if not asked:
        raise ValueError("where the time went was not asked for: expected sim(.., explain=True)")
    names = list(asked[0]["all"]["causes"])
    columns |= {f"{name}_ns": "ns" for name in names}
    cells = []
    for head, run in runs:
        for kind in filter(lambda kind: _is_explained(run, kind), KINDS):
            found = run["latency_ns"][kind]["by_cause"]
            for of in filter(found.__contains__, _OF):
                row = found[of]
                mean = row["latency_ns"] if of == "slowest" else row["mean"]
                parts = [row["causes"][name] for name in names]
                cells.append([*head, kind, of, row.get("requests", 1), mean, *parts])
    return Table(columns, cells)


# Rows of a table of causes, in their order.
_OF = ("all", "p50", "p90", "p99", "p999", "p9999", "slowest")


def _is_explained(run: dict[str, Any], kind: str) -> bool:
    return "by_cause" in run.get("latency_ns", {}).get(kind, {})


def histogram(rows: Tabular, documents: list[dict[str, Any]], kind: "str | None") -> Table:
    """A row for each bucket that has any requests."""
    if kind is not None and kind not in KINDS:
        raise ValueError(f"histogram of `{kind}`: expected one of {', '.join(KINDS)}")
    columns, runs = _head(rows, documents)
    columns |= {"op": "text", "up_to_ns": "ns", "count": "count", "at_most": "ratio"}
    cells = []
    for head, run in runs:
        for op in KINDS if kind is None else (kind,):
            below = 0
            found = run.get("latency_ns", {}).get(op, {})
            for edge, count in found.get("histogram", ()):
                below += count
                cells.append([*head, op, edge, count, below / found["count"]])
    return Table(columns, cells)

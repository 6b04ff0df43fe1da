"""What came out: documents that are byte for byte those of the command line, and their numbers as columns."""

import json
import os
from collections.abc import Mapping
from typing import Any

from varve import _html, _long, _varve
from varve._compare import Comparison, compare
from varve._cost import Cost
from varve._files import write_whole
from varve._run import Run
from varve._tables import Table, Tabular

__all__ = ["Hits", "Requests", "Results", "load"]


class Results(Tabular):
    """Of `sim`, `run`, `merge` and `load`: a row for each run.

    >>> runs = varve.sim("@demo", policy=["lru", "s3-fifo"], buffer="8M")
    >>> len(runs), runs[1].waf == runs.rows()[1]["waf"]
    (2, True)
    """

    def __init__(self, native: _varve.Results, cost: Cost | None) -> None:
        self._native = native
        self._cost = cost

    def json(self, deterministic: bool = False) -> str:
        """The document of `varve run --json`; deterministic: without what the runs cost on this machine."""
        if deterministic or self._cost is None:
            return self._native.text()
        return self._native.text_with_cost(self._cost.wall_ms, self._cost.cpu_ms, self._cost.peak_rss)

    def document(self) -> dict[str, Any]:
        """The document as values of Python (docs/formats.md)."""
        found: dict[str, Any] = json.loads(self.json())
        return found

    @property
    def scenario(self) -> str:
        """The text of a scenario file that repeats this."""
        found = self._native.scenario
        if found is None:
            raise ValueError("these results are of a document alone: expected the folder of a run, with its run.toml")
        return found

    def csv(self) -> str:
        """As `varve run --csv` writes it."""
        return self._native.csv()

    def save(self, folder: "str | os.PathLike[str]", deterministic: bool = False) -> None:
        """Writes what `varve run --out` does: `results.json`, `report.html`, and `run.toml`, which repeats it. `load`,
        `varve view`, `varve compare` and `varve cite` take the folder.

        >>> runs = varve.sim("@demo", policy="lru", buffer="8M")
        >>> runs.save("saved")
        >>> varve.load("saved").rows() == runs.rows()
        True
        """
        if self._native.scenario is None:
            raise ValueError("these results are of a document alone: expected some whose scenario is known")
        cost = None if deterministic or self._cost is None else self._cost
        said = None if cost is None else (cost.wall_ms, cost.cpu_ms, cost.peak_rss)
        self._native.save(os.fspath(folder), said)

    def report(self, path: "str | os.PathLike[str]") -> None:
        """Writes the page of results: one HTML file that needs no network.

        >>> varve.sim("@demo", policy="lru", buffer="8M").report("report.html")
        """
        write_whole(path, self._native.page().encode())

    def compare(self, *others: "Results", fail_over: "Mapping[str, float] | None" = None) -> Comparison:
        """As `varve compare`: each metric here and in others, runs matched by what was swept, and what was configured
        differently. fail_over: by how many percent a metric may move; if one moves more, `varve.ToleranceError`.

        >>> before, after = (varve.sim("@demo", policy="lru", buffer=size) for size in ("8M", "16M"))
        >>> found = before.compare(after)
        >>> found.differences["buffer.size"]
        ['8M', '16M']
        >>> before.compare(before, fail_over={"waf": 0}).differences
        {}
        >>> before.compare(after, fail_over={"hit": 1})  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        varve._errors.ToleranceError: outside the tolerance:
        ...
        """
        if not others:
            raise TypeError("compare(): expected results to compare with")
        return compare([self, *others], fail_over)

    def requests(self) -> "Requests":
        """Every request of the run, if it was asked for, `sim(.., requests=True)`: when it came, how long it took,
        and what that time went to; the times by cause sum to `latency_ns`.

        >>> log = varve.sim("@demo", policy="lru", buffer="8M", requests=True).requests()
        >>> slowest = max(log.rows(), key=lambda row: row["latency_ns"])
        >>> causes = {name: ns for name, ns in slowest.items() if name.endswith("_ns")}
        >>> arrival, latency = causes.pop("arrival_ns"), causes.pop("latency_ns")
        >>> sum(causes.values()) == latency
        True
        """
        native = self._native.requests()
        if native is None:
            raise ValueError("the log of requests was not asked for: expected sim(.., requests=True)")
        return Requests(native)

    def causes(self) -> Table:
        """Where the time went, if it was asked for, `sim(.., explain=True)`: a row for each run, kind of requests, and
        percentile (requests that took as long, or longer) with their mean time by cause. `of` is also `all`, and
        `slowest`, one request.

        >>> table = varve.sim("@demo", policy="lru", buffer="8M", explain=True).causes()
        >>> [row["of"] for row in table.rows() if row["op"] == "read"]
        ['all', 'p50', 'p90', 'p99', 'p999', 'slowest']
        """
        return _long.causes(self, self.document()["results"])

    def columns(self) -> dict[str, str]:
        return dict(self._native.columns())

    def _cells(self) -> list[list[Any]]:
        return self._native.cells()

    def series(self) -> Table:
        """Over time: a row for each window of each run, with what the host, cleaning and the buffer did in it.

        Windows of a run have equal numbers of requests, but for the last; `start_ns` and `end_ns` are virtual times.
        What the drive did after the last request, until all was on flash, is a row of its own behind them: `window`
        and times are None, `requests` 0. With it, rows sum to the numbers of the run.
        """
        return _long.series(self, self.document()["results"])

    def latencies(self) -> Table:
        """A row for each run and kind of requests: their number, mean, percentiles. What has too few samples for a
        percentile has none."""
        return _long.latencies(self, self.document()["results"])

    def histogram(self, kind: str | None = None) -> Table:
        """Distributions of latencies: a row for each bucket that has any requests, with its upper edge `up_to_ns`,
        how many are in it, and which share of all took at most as long. kind: read, write, flush, discard; else all."""
        return _long.histogram(self, self.document()["results"], kind)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return _html.runs(self.rows(), self.document()["results"])

    def __len__(self) -> int:
        return len(self.document()["results"])

    def __getitem__(self, run: int) -> Run:
        """All that the document says of one run."""
        return Run(self.document()["results"][run])

    def __repr__(self) -> str:
        return f"<varve.Results of {len(self)} runs>"


class Requests(Tabular):
    """The log of a run: a row for each request of its measured part. Who knows the Arrow PyCapsule interface takes
    it without a copy; it is held in 150 bytes a request."""

    def __init__(self, native: _varve.Requests) -> None:
        self._native = native

    def columns(self) -> dict[str, str]:
        return dict(self._native.columns())

    def _by_column(self) -> dict[str, list[Any]]:
        return {name: self._native.column(name) for name in self.columns()}

    def _cells(self) -> list[list[Any]]:
        return [list(row) for row in zip(*self._by_column().values())]

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._native.__arrow_c_stream__(requested_schema)

    def _repr_html_(self) -> str:
        return _html.table(self.columns(), self._cells())

    def __len__(self) -> int:
        return len(self._native)

    def __repr__(self) -> str:
        return f"<varve.Requests: {len(self)}>"


def load(path: "str | os.PathLike[str]") -> Results:
    """Results of the folder of a run, or of a file of `varve run --json`.

    >>> runs = varve.sim("@demo", policy="lru", buffer="8M")
    >>> runs.save("kept")
    >>> varve.load("kept/results.json").compare(runs).differences
    {}
    """
    return Results(_varve.load(os.fspath(path)), None)


# Numbers of a row of hits, and their units.
_COUNTS = (
    "buffer_bytes entries unit_accesses unit_hits nand_reads dirty_evictions clean_evictions flushed padded"
).split()


class Hits(Tabular):
    """Of `hits`: a row for each policy and size."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._document: dict[str, Any] = json.loads(text)

    def json(self, deterministic: bool = False) -> str:
        """The document of `varve sim --hits --json`. It never says what counting cost."""
        del deterministic
        return self._text

    def document(self) -> dict[str, Any]:
        """The document as values of Python (docs/formats.md)."""
        found: dict[str, Any] = json.loads(self._text)
        return found

    def columns(self) -> dict[str, str]:
        counts = {name: "bytes" if name.endswith("_bytes") else "count" for name in _COUNTS}
        return {"policy": "text", **counts, "hit_ratio": "ratio"}

    def _cells(self) -> list[list[Any]]:
        def cells(row: dict[str, Any]) -> list[Any]:
            units = row["unit_accesses"]
            ratio = row["unit_hits"] / units if units else None
            return [row["policy"], *(row[name] for name in _COUNTS), ratio]

        return [cells(row) for row in self._document["results"]]

    def curve(self) -> list[dict[str, Any]]:
        """The miss-ratio curve of LRU, if it was asked for: entries, misses, miss_ratio, standard_error."""
        if "curve" not in self._document:
            raise ValueError("no curve was asked for: expected hits(.., curve=\"exact\") or a share such as 1/100")
        accesses = self._document["accesses"]
        points = self._document["curve"]["points"]
        return [{**point, "miss_ratio": point["misses"] / accesses} for point in points]

    def __len__(self) -> int:
        return len(self._document["results"])

    def __getitem__(self, row: int) -> dict[str, Any]:
        found: dict[str, Any] = self._document["results"][row]
        return found

    def __repr__(self) -> str:
        return f"<varve.Hits of {len(self)} buffers>"

"""What came out: documents that are byte for byte those of the command line, and their numbers as columns."""

import json
from typing import Any

from varve import _html, _long, _varve
from varve._cost import Cost
from varve._tables import Table, Tabular

__all__ = ["Hits", "Results"]

class Results(Tabular):
    """Of `sim`, `run` and `merge`: a row for each run."""

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
        return self._native.scenario

    def csv(self) -> str:
        """As `varve run --csv` writes it."""
        return self._native.csv()

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

    def __getitem__(self, run: int) -> dict[str, Any]:
        """All that the document says of one run."""
        found: dict[str, Any] = self.document()["results"][run]
        return found

    def __repr__(self) -> str:
        return f"<varve.Results of {len(self)} runs>"


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

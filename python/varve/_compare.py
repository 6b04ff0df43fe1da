"""Results side by side, as `varve compare` has them: first what was configured differently, then what came out."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from varve import _varve
from varve._errors import ToleranceError
from varve._tables import Tabular

if TYPE_CHECKING:
    from varve._results import Results

__all__ = ["Comparison", "compare"]


class Comparison(Tabular):
    """A row for each metric of each run that all have: `run`, `metric`, `first`, then of each other document its value
    and by how many percent it differs: `other`, `other_percent` (`other_2` and so on if there are several)."""

    def __init__(self, differences: Any, rows: Any, unmatched: Any, documents: int) -> None:
        numbers = range(1, documents)
        self._names = ["other" if at == 1 else f"other_{at}" for at in numbers]
        self._rows = rows
        # Keys whose values differ: each with its text in all documents, None where it is not there.
        self.differences: dict[str, list[str | None]] = dict(differences)
        # Runs that are not in all documents, and the numbers of those that lack them.
        self.unmatched: dict[str, list[int]] = dict(unmatched)

    def columns(self) -> dict[str, str]:
        columns = {"run": "text", "metric": "text", "first": "ratio"}
        for name in self._names:
            columns |= {name: "ratio", f"{name}_percent": "ratio"}
        return columns

    def _cells(self) -> list[list[Any]]:
        cells = []
        for run, metric, values, changes in self._rows:
            others = [cell for pair in zip(values[1:], changes) for cell in pair]
            cells.append([run, metric, values[0], *others])
        return cells

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        keys = ", ".join(self.differences) or "nothing"
        return f"<varve.Comparison of {len(self)} numbers; configured differently: {keys}>"


def compare(documents: "list[Results]", fail_over: "Mapping[str, float] | None") -> Comparison:
    """Compares results with the first."""
    tolerances = [f"{metric}={percent}" for metric, percent in (fail_over or {}).items()]
    differences, rows, unmatched, outside = _varve.compare([one._native for one in documents], tolerances)
    comparison = Comparison(differences, rows, unmatched, len(documents))
    if outside is not None:
        raise ToleranceError(outside, comparison)
    return comparison

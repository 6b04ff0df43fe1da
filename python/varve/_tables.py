"""Rows as data frames of others, which are looked for when they are asked for."""

import importlib
from typing import Any

from varve import _varve
from varve._html import table

__all__ = ["Table"]

# Units of which a value may always be a fraction.
_REAL = ("ns", "ratio")


def needed(package: str, what: str) -> Any:
    """A package that the user has to have for this."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        extra = {"pyarrow": "arrow", "matplotlib": "plot"}.get(package.partition(".")[0], package)
        raise ImportError(
            f"{what} needs {package}, which is not installed: pip install {package}, or varve[{extra}]; "
            "rows() needs nothing"
        ) from error


class Tabular:
    """Something with rows of named columns, each of one type; None is what is not known."""

    def columns(self) -> dict[str, str]:
        """Names of the columns, and what is in them: `text`, or the unit of their numbers."""
        raise NotImplementedError

    def _cells(self) -> list[list[Any]]:
        raise NotImplementedError

    def rows(self) -> list[dict[str, Any]]:
        """A dict for each row."""
        names = list(self.columns())
        return [dict(zip(names, row)) for row in self._cells()]

    def _by_column(self) -> dict[str, list[Any]]:
        cells = self._cells()
        return {name: [row[at] for row in cells] for at, name in enumerate(self.columns())}

    def df(self) -> Any:
        """A pandas.DataFrame. What is not known is NaN."""
        return needed("pandas", "df()").DataFrame(self._by_column())

    def pl(self) -> Any:
        """A polars.DataFrame."""
        return needed("polars", "pl()").DataFrame(self)

    def arrow(self) -> Any:
        """A pyarrow.Table; the unit of each column is in its metadata."""
        return needed("pyarrow", "arrow()").table(self)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        by_column = self._by_column()
        columns = [(name, unit, _kind(unit, by_column[name]), by_column[name]) for name, unit in self.columns().items()]
        rows = len(columns[0][3]) if columns else 0
        return _varve.Columns(columns, rows).__arrow_c_stream__(requested_schema)

    def _repr_html_(self) -> str:
        return table(self.columns(), self._cells())


def _kind(unit: str, values: list[Any]) -> str:
    """What the values of a column are, as far as it can be by its unit: not by what came out."""
    if unit == "text":
        return "text"
    if unit in _REAL:
        return "real"
    return "whole" if all(isinstance(value, int) for value in values if value is not None) else "real"


class Table(Tabular):
    """Rows of named columns: over time, or of a distribution. Who knows the Arrow PyCapsule interface takes it as it
    is, and so do `df()`, `pl()` and `arrow()`."""

    def __init__(self, columns: dict[str, str], cells: list[list[Any]]) -> None:
        real = [unit in _REAL for unit in columns.values()]
        self._columns = columns
        self._rows = [[float(value) if of and value is not None else value for of, value in zip(real, row)] for row in cells]

    def columns(self) -> dict[str, str]:
        return dict(self._columns)

    def _cells(self) -> list[list[Any]]:
        return self._rows

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return f"<varve.Table of {len(self)} rows: {', '.join(self._columns)}>"

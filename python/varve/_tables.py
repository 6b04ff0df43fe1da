"""Rows as data frames of others, which are looked for when they are asked for."""

import importlib
from typing import Any


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
        return needed("polars", "pl()").DataFrame(self._by_column(), infer_schema_length=None)

    def arrow(self) -> Any:
        """A pyarrow.Table; the unit of each column is in its metadata."""
        arrow = needed("pyarrow", "arrow()")
        table = arrow.table(self._by_column())
        units = self.columns()
        fields = [field.with_metadata({"unit": units[field.name]}) for field in table.schema]
        return table.cast(arrow.schema(fields))

"""Traces: opened by their names, taken by others as Arrow."""

import json
import os
from typing import Any

from varve import _varve
from varve._progress import Progress, Telling
from varve._text import options
from varve._varve import Batch, Batches

__all__ = ["Batch", "Trace", "open"]


class Trace:
    """A trace file, or `@demo`, read anew by each who asks for its requests.

    Iteration gives batches. Whoever knows the Arrow PyCapsule interface takes a trace as it is:
    `polars.DataFrame(trace)`, `pyarrow.table(trace)`, `pandas.DataFrame.from_arrow(trace)`.
    """

    def __init__(self, name: "str | os.PathLike[str]", **reading: object) -> None:
        self._native = _varve.Trace(os.fspath(name), options(reading))

    @property
    def name(self) -> str:
        """As it was opened."""
        return self._native.name

    @property
    def format(self) -> str:
        """The format it is read as (`varve list formats`)."""
        return self._native.format

    @property
    def compression(self) -> str:
        """How it is packed."""
        return self._native.compression

    def info(self, progress: Progress = None) -> dict[str, Any]:
        """Reads it once: the document of `varve trace info --json`."""
        with Telling(progress) as telling:
            found: dict[str, Any] = json.loads(self._native.document(_varve.VERSION, telling.call))
        return found

    def __iter__(self) -> Batches:
        return iter(self._native)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._native.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return f"<varve.Trace {self.name}, {self.format}, {self.compression}>"


def open(name: "str | os.PathLike[str]", **reading: object) -> Trace:
    """Opens a trace in any of the formats of `varve list formats`, which is found out by content, or `@demo`.

    reading: options of `varve trace`: format, time_unit, size_unit, columns, op_map, skip_bad, app, app_is_comm,
    align_shift, sort_window.
    """
    return Trace(name, **reading)

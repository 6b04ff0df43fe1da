"""Traces: opened by their names, made by generators or out of tables, taken by others as Arrow."""

import json
import os
from collections.abc import Iterable
from typing import Any, Union

from varve import _varve
from varve._fetch import is_url, keep
from varve._files import write_whole
from varve._progress import Progress, Telling
from varve._text import options, text
from varve._varve import Batch, Batches

__all__ = ["Batch", "Trace", "from_arrow", "gen", "open"]


class Trace:
    """A trace file, `@demo`, a generator or a table, read anew by each who asks for its requests.

    Iteration gives batches. Whoever knows the Arrow PyCapsule interface takes a trace as it is:
    `polars.DataFrame(trace)`, `pyarrow.table(trace)`, `pandas.DataFrame.from_arrow(trace)`.
    """

    def __init__(self, name: "str | os.PathLike[str]", **reading: object) -> None:
        path = os.fspath(name)
        self._native = _varve.Trace(keep(path) if is_url(path) else path, options(reading))
        self._reading = reading
        self._memory = False
        self._requests: int | None = None

    @staticmethod
    def _of(native: _varve.Trace, memory: bool) -> "Trace":
        made = Trace.__new__(Trace)
        made._native, made._reading, made._memory, made._requests = native, {}, memory, None
        return made

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
        self._requests = found["results"]["requests"]
        return found

    @property
    def apps(self) -> list[dict[str, Any]]:
        """What each application asked for, by its number: requests and bytes of each kind, pages, and its `name` if the
        trace has one. Reads it once.

        >>> [app["requests"] for app in varve.open("@demo").apps]
        [120000]
        """
        found: list[dict[str, Any]] = self.info()["results"]["apps"]
        return found

    def __len__(self) -> int:
        """Requests, once they have been counted: by `info()`.

        >>> trace = varve.open("@demo")
        >>> len(trace)
        Traceback (most recent call last):
        ...
        TypeError: the requests of @demo were not counted yet: info() does
        >>> trace.info()["results"]["requests"] == len(trace)
        True
        """
        if self._requests is None:
            raise TypeError(f"the requests of {self.name} were not counted yet: info() does")
        return self._requests

    def __bool__(self) -> bool:
        return True

    def save(self, path: "str | os.PathLike[str]", progress: Progress = None) -> "Trace":
        """Writes a `.vtr` file, whole or not at all, and opens it. What is to be written is held in memory first, packed.
        A file that the trace is read from is not written over."""
        self._native.keeps(os.fspath(path))
        with Telling(progress) as telling:
            data = self._native.vtr(telling.call)
        write_whole(path, data)
        return Trace(path)

    def __iter__(self) -> Batches:
        return iter(self._native)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._native.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return f"<varve.Trace {self.name}, {self.format}, {self.compression}>"


def open(name: "str | os.PathLike[str]", **reading: object) -> Trace:
    """Opens a trace in any of the formats of `varve list formats`, which is found out by content, or `@demo`.
    A URL (`s3://..`, `https://..`) is fetched into the folder that `$VARVE_TRACES` names: see `varve.keep`.

    >>> varve.open("@demo")
    <varve.Trace @demo, vtr, none>

    reading: options of `varve trace`: format, time_unit, size_unit, columns, op_map, skip_bad, app, app_is_comm,
    align_shift, sort_window.
    """
    return Trace(name, **reading)


def gen(name: str, **fields: object) -> Trace:
    """The requests of a generator (`varve list generators`).

    >>> sum(len(batch) for batch in varve.gen("zipf", size="8GiB", read=70, count="2k", seed=1))
    2000

    They are made while they are read. Without a seed a run draws with its own, and who reads the trace with 1.
    """
    given = [f"{key}={text(value)}" for key, value in fields.items() if value is not None]
    return Trace._of(_varve.Trace.recipe(",".join([name, *given])), False)


# Columns that a table of ours has, and others may lack.
_OURS = {"app": "app", "response": "response_ns:ns", "flags": "flags", "hint": "hint"}


def from_arrow(
    table: Any,
    *,
    at: str | None = "at_ns:ns",
    op: str | None = "op",
    offset: str = "offset:byte",
    length: str = "length:byte",
    app: str | None = None,
    response: str | None = None,
    op_map: str | None = None,
    shared: bool = False,
    name: str = "table",
    progress: Progress = None,
) -> Trace:
    """A trace out of any table that can be taken as Arrow: of pandas, polars, pyarrow, DuckDB.

    Columns are `"NAME:UNIT"`: units are never guessed. Of times: ps, ns, 100ns, us, ms, s; a column whose type is a
    time has one already, and is `"NAME"`. Of offset and length: byte, sector, kib, page. By default the columns are
    those that `varve.open` gives, so that a trace may be filtered and come back.

    at: None: the requests have no times. op: None: all are reads. app: a column of numbers or of names. response: how
    long the traced device took. op_map: the texts of operations, such as `"R=0,W=1"`. shared: applications share one address space, as those of a
    generator or of a merge do; else each is a volume with one of its own. name: of the table, in errors
    and documents. Rows are in the order of time; the first is at 0. The table is copied, packed as a `.vtr` file.
    """
    asked: dict[str, Any] = {"at": at, "op": op, "offset": offset, "length": length, "app": app, "response": response}
    asked |= {"flags": None, "hint": None, "op_map": op_map, "shared": shared}
    # Who names no column has ours.
    if (at, op, offset, length) == ("at_ns:ns", "op", "offset:byte", "length:byte"):
        there = _names(table)
        for key, column in _OURS.items():
            if asked[key] is None and column.partition(":")[0] in there:
                asked[key] = column
    with Telling(progress) as telling:
        return Trace._of(_varve.Trace.table(name, table, asked, telling.call), True)


def _names(table: Any) -> list[str]:
    """The names of the columns of a table, of whichever package."""
    named: Any = getattr(table, "column_names", None)
    if named is None:
        named = getattr(table, "columns", ())
    # An index of pandas has no truth, and a table of ours a method.
    columns: Iterable[Any] = named() if callable(named) else named
    return [column for column in columns if isinstance(column, str)]


# What runs on a drive.
Load = Union[str, "os.PathLike[str]", Trace]


def load(given: Load, reading: dict[str, object]) -> tuple[str, dict[str, object]]:
    """The name that a scenario has for a trace, and how it is read: the options of a trace that was opened are under
    those that are given."""
    if not isinstance(given, Trace):
        return os.fspath(given), reading
    if given._memory:
        raise ValueError(f"{given!r} is in memory: expected a file, so that its results can be repeated: save(path) it")
    return given.name, {**given._reading, **reading}

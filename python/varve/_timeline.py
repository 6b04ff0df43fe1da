"""A window of a run, request by request and operation by operation: what the file of a timeline shows, as tables."""

import os

from varve import _varve
from varve._tables import Table

__all__ = ["Timeline"]

_OPERATION = {
    "die": "count",
    "name": "text",
    "cause": "text",
    "request": "count",
    "block": "count",
    "page": "count",
    "pages": "count",
    "start_ns": "ns",
    "end_ns": "ns",
}
_REQUEST = {
    "slot": "count",
    "op": "text",
    "request": "count",
    "app": "count",
    "offset": "bytes",
    "bytes": "bytes",
    "start_ns": "ns",
    "end_ns": "ns",
    "latency_ns": "ns",
}


class Timeline:
    """The timeline of a file that `sim(.., timeline=.., timeline_out=FILE)` or the program wrote. Times are those of
    the measured part.

    >>> runs = varve.sim("@demo", policy="lru", buffer="8M", timeline="20s..20.5s", timeline_out="slow.pftrace")
    >>> timeline = varve.Timeline("slow.pftrace")
    >>> sorted({row["op"] for row in timeline.requests().rows()})
    ['flush', 'read', 'write']
    """

    def __init__(self, path: "str | os.PathLike[str]") -> None:
        self._native = _varve.Drawing(os.fspath(path))

    @property
    def dies(self) -> list[str]:
        """Names of the dies, by their numbers."""
        return self._native.dies

    def requests(self) -> Table:
        """A row for each request that was in flight, with its latency by cause; `slot` is its place among those that
        were in flight with it, `start_ns` when the drive got it."""
        causes = {name: "ns" for name in self._native.causes}
        cells = [[*numbers, *by_cause] for numbers, by_cause, _ in self._native.requests()]
        return Table({**_REQUEST, **causes}, cells)

    def waited_for(self, request: int) -> Table:
        """The operations of dies that a request waited for, its own included, by the request's number."""
        found = [places for numbers, _, places in self._native.requests() if numbers[2] == request]
        if not found:
            raise ValueError(f"request {request}: not one of those in this window")
        operations = self._native.operations()
        return Table(_OPERATION, [list(operations[place]) for place in found[0]])

    def operations(self) -> Table:
        """A row for each stretch of time in which a die did one thing: those of a die do not overlap. `request` is
        the one that ordered it, 0 if none of the measured part did."""
        return Table(_OPERATION, [list(row) for row in self._native.operations()])

    def cleaning(self) -> Table:
        """A row for each line that was collected, with the slots that were valid in it."""
        columns = {"line": "count", "valid": "count", "start_ns": "ns", "end_ns": "ns"}
        return Table(columns, [list(row[:4]) for row in self._native.victims()])

    def levels(self) -> Table:
        """Numbers over time, free blocks and dirty pages of the buffer: from when on each was how much."""
        cells = [[name, at, value] for name, values in self._native.levels() for at, value in values]
        return Table({"name": "text", "from_ns": "ns", "value": "count"}, cells)

    def __repr__(self) -> str:
        native = self._native
        return f"<varve.Timeline of {len(native.requests())} requests, {len(native.operations())} operations>"

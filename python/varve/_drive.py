"""A modelled drive that a program steps in virtual time."""

import json
import os
from typing import Any

from varve import _varve
from varve._scenario import Scenario
from varve._tables import Table
from varve._text import Pairs, text

__all__ = ["Drive"]

# Units of times, in picoseconds.
_GRAINS = {"ns": 1000, "ps": 1}


class Drive:
    """A drive of a preset or a file, fresh from the factory, for who decides request by request: an event loop, a
    model of an application, a search.

    >>> drive = varve.Drive("femu-default", scale="1/64")
    >>> done = drive.write(0, offset=0, length=4096)
    >>> drive.read(done, offset=0, length=4096) > done
    True

    Times are virtual, in whole nanoseconds, and never fall from one call to the next; what is answered is when the
    request is done, rounded up. A run counts in picoseconds: with `unit="ps"` so do these calls, and who submits the next
    request when one is done has the times, and the `event_hash`, of `varve.sim`. A request may be submitted before another is done: they share the drive as they do in
    `varve.sim`. Nothing is random: the same calls have the same answers. Data is not kept, only where it lies.

    ssd: a preset or a file. capacity: of the drive. scale: "1/64". set: keys of the drive (`varve list keys`), such
    as `{"buffer.policy": "lru", "buffer.size": "8M"}`. unit: of all times, "ns" or "ps".
    """

    def __init__(
        self,
        ssd: "str | os.PathLike[str]",
        *,
        capacity: "str | int | None" = None,
        scale: str | None = None,
        set: "Pairs | None" = None,
        unit: str = "ns",
    ) -> None:
        if unit not in _GRAINS:
            raise ValueError(f"unit `{unit}`: expected one of {', '.join(_GRAINS)}")
        name = os.fspath(ssd)
        scenario = Scenario()
        is_file = name.endswith((".toml", ".xml")) or "/" in name
        scenario.set("drive.file" if is_file else "drive.preset", name)
        if scale is not None:
            scenario.set("drive.scale", scale)
        if capacity is not None:
            # What its blocks are is then asked of the capacity.
            scenario.set("geometry.blocks", 0)
            scenario.set("capacity", text(capacity))
        scenario.update(set)
        self._name, self._unit = name, unit
        self._native = _varve.Drive(scenario._native, _GRAINS[unit])

    @property
    def capacity(self) -> int:
        """Bytes."""
        return self._native.capacity

    @property
    def now(self) -> int:
        """The time of the latest request."""
        return self._native.now

    def read(self, at: int, offset: int, length: int) -> int:
        """Reads bytes, in whole sectors of 512; returns when it is done."""
        return self._native.read(at, offset, length)

    def write(self, at: int, offset: int, length: int, fua: bool = False) -> int:
        """Writes bytes, in whole sectors of 512; returns when it is done. fua: it is on flash then."""
        return self._native.write(at, offset, length, fua)

    def trim(self, at: int, offset: int, length: int) -> int:
        """Discards bytes, in whole sectors of 512; returns when it is done."""
        return self._native.trim(at, offset, length)

    def flush(self, at: int) -> int:
        """Makes all that was acknowledged durable; returns when it is."""
        return self._native.flush(at)

    def stats(self) -> dict[str, Any]:
        """Its counters, under the names that the result of a run has."""
        found: dict[str, Any] = json.loads(self._native.stats())
        return found

    def reset_stats(self) -> None:
        """Counts anew from here on: what was before is warm-up."""
        self._native.reset_stats()

    def blocks(self) -> Table:
        """Each block: how often it was erased (None: it is bad), and its slots that hold current data."""
        found = self._native.blocks()
        cells = [[number, erases, valid] for number, (erases, valid) in enumerate(found)]
        return Table({"block": "count", "erases": "count", "valid": "count"}, cells)

    def check(self) -> None:
        """Looks at every invariant of the model: `varve.CheckError` if one does not hold."""
        self._native.check()

    def copy(self) -> "Drive":
        """Another drive in the same state: what would happen if."""
        made = Drive.__new__(Drive)
        made._name, made._unit, made._native = self._name, self._unit, self._native.copy()
        return made

    def __repr__(self) -> str:
        return f"<varve.Drive {self._name}, {self.capacity} bytes, at {self.now} {self._unit}>"

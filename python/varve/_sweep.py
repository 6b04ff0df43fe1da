"""Sweeps in parts: points that are run anywhere, in any order, more than once, and make the bytes of one machine."""

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Union

from varve import _varve
from varve._policy import Named, of_text, version
from varve._progress import Progress, Telling
from varve._results import Results
from varve._scenario import Scenario
from varve._text import Pairs

__all__ = ["Sweep", "Unit", "run_unit", "sweep"]


@dataclass(frozen=True)
class Unit:
    """One point of a sweep: small, and can be pickled. `unit()` is `varve.run_unit(unit)`."""

    # A digest of all that its result depends on: every key, the bytes of the traces, the sources of the program.
    id: str
    n: int
    name: str
    scenario: str = field(repr=False)
    version: str = field(repr=False)
    # Classes of policies that the scenario names: pickled by where they are, so they have to be in a module.
    policies: tuple[type[Named], ...] = field(default=(), repr=False)
    # The folder that results are kept in, if there is one.
    store: str | None = field(default=None, repr=False)

    def __call__(self, progress: Progress = None) -> bytes:
        return run_unit(self, progress)


def run_unit(unit: Unit, progress: Progress = None) -> bytes:
    """Runs one point in this process: its result, with a digest of it. Ends when the process does. If its sweep has a
    store, a result that is there is not made again, and one that is made is put there."""
    for policy in unit.policies:
        policy._registered()
    here = version(unit.scenario)
    if here != unit.version:
        raise ValueError(f"point {unit.name} is of a sweep of varve {unit.version}, and this is {here}: expected the same")
    with Telling(progress) as telling:
        return _varve.finish(unit.scenario, unit.id, version, unit.store, telling.call).encode()


class Sweep:
    """The points of a scenario, in the order of its results."""

    def __init__(self, index: str, store: str | None = None) -> None:
        self._index, self._store = index, store
        of: dict[str, Any] = json.loads(index)
        scenario, by = of["scenario"], of["version"]
        policies = tuple(of_text(scenario))
        points = [point for point in of["points"] if "id" in point]
        self._units = [Unit(p["id"], p["n"], p["name"], scenario, by, policies, store) for p in points]
        # Combinations that cannot be, with the reason of each.
        self.impossible: list[dict[str, Any]] = [point for point in of["points"] if "id" not in point]
        # A digest of all points: sweeps of one digest have one result.
        self.digest: str = of["digest"]

    def __iter__(self) -> Iterator[Unit]:
        return iter(self._units)

    def __len__(self) -> int:
        return len(self._units)

    def __getitem__(self, at: int) -> Unit:
        return self._units[at]

    def missing(self) -> list[Unit]:
        """Units that have no whole result in the store: what is left to do, after whatever was killed."""
        if self._store is None:
            raise ValueError("this sweep has no store: expected sweep(.., store=FOLDER)")
        left = set(_varve.missing(self._index, self._store))
        return [unit for unit in self._units if unit.id in left]

    def merge(self, results: "Iterable[bytes] | None" = None, partial: bool = False) -> Results:
        """The document of `varve run`, byte for byte. Results may come in any order and more than once; one that is
        damaged, two of a point that differ, and holes are errors (partial: holes are not). Without results: those of
        the store."""
        if results is None and self._store is None:
            raise TypeError("merge(): expected results, or a sweep with a store")
        given = [result.decode() for result in results or ()]
        return Results(_varve.merge(self._index, given, self._store if results is None else None, partial), None)

    def __repr__(self) -> str:
        return f"<varve.Sweep of {len(self)} points>"


def sweep(
    scenario: "Union[Scenario, str, os.PathLike[str]]",
    *,
    set: "Pairs | None" = None,
    store: "str | os.PathLike[str] | None" = None,
    progress: Progress = None,
) -> Sweep:
    """Checks a scenario as a whole, and gives its points:

    >>> scenario = varve.Scenario({"workload.gen": "zipf,size=16MiB,count=2k", "drive.preset": "femu-default"})
    >>> scenario.update({"drive.scale": "fit", "buffer.policy": ["lru", "arc"]})
    >>> sweep = varve.sweep(scenario)
    >>> sweep.merge(map(varve.run_unit, sweep)).rows() == varve.run(scenario).rows()
    True

    Traces are named by their paths: they have to be there where the points are run. store: a folder that all who run
    points can write to; each result is there when its point ends, whole or not at all. It is that of `varve run --out`, and
    `--resume` and `varve merge` go on with it.

    >>> sweep = varve.sweep(scenario, store="store")
    >>> len(sweep.missing())
    2
    >>> done = [unit() for unit in sweep.missing()]
    >>> sweep.missing(), len(sweep.merge())
    ([], 2)
    """
    asked = scenario.copy() if isinstance(scenario, Scenario) else Scenario.load(scenario)
    asked.update(set)
    with Telling(progress) as telling:
        index = asked._native.index(version, telling.call)
    if store is None:
        return Sweep(index)
    # Workers may stand in other folders.
    folder = os.path.abspath(store)
    _varve.begin(index, folder)
    return Sweep(index, folder)

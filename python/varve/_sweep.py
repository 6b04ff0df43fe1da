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

    def __call__(self, progress: Progress = None) -> bytes:
        return run_unit(self, progress)


def run_unit(unit: Unit, progress: Progress = None) -> bytes:
    """Runs one point in this process: its result, with a digest of it. Ends when the process does."""
    for policy in unit.policies:
        policy._registered()
    here = version(unit.scenario)
    if here != unit.version:
        raise ValueError(f"point {unit.name} is of a sweep of varve {unit.version}, and this is {here}: expected the same")
    with Telling(progress) as telling:
        return _varve.finish(unit.scenario, unit.id, version, telling.call).encode()


class Sweep:
    """The points of a scenario, in the order of its results."""

    def __init__(self, index: str) -> None:
        self._index = index
        of: dict[str, Any] = json.loads(index)
        scenario, by = of["scenario"], of["version"]
        policies = tuple(of_text(scenario))
        points = [point for point in of["points"] if "id" in point]
        self._units = [Unit(p["id"], p["n"], p["name"], scenario, by, policies) for p in points]
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

    def merge(self, results: Iterable[bytes], partial: bool = False) -> Results:
        """The document of `varve run`, byte for byte. Results may come in any order and more than once; one that is
        damaged, two of a point that differ, and holes are errors (partial: holes are not)."""
        return Results(_varve.merge(self._index, [result.decode() for result in results], partial), None)

    def __repr__(self) -> str:
        return f"<varve.Sweep of {len(self)} points>"


def sweep(
    scenario: "Union[Scenario, str, os.PathLike[str]]", *, set: "Pairs | None" = None, progress: Progress = None
) -> Sweep:
    """Checks a scenario as a whole, and gives its points:

    >>> scenario = varve.Scenario({"workload.gen": "zipf,size=16MiB,count=2k", "drive.preset": "femu-default"})
    >>> scenario.update({"drive.scale": "fit", "buffer.policy": ["lru", "arc"]})
    >>> sweep = varve.sweep(scenario)
    >>> sweep.merge(map(varve.run_unit, sweep)).rows() == varve.run(scenario).rows()
    True

    Traces are named by their paths: they have to be there where the points are run.
    """
    asked = scenario.copy() if isinstance(scenario, Scenario) else Scenario.load(scenario)
    asked.update(set)
    with Telling(progress) as telling:
        return Sweep(asked._native.index(version, telling.call))

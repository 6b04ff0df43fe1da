"""Scenarios: a drive, a workload, a way to replay it, and what to sweep."""

import json
import os
from typing import TYPE_CHECKING, Any

from varve import _fetch as _fetch  # it tells the library who fetches traces
from varve import _varve
from varve._policy import version
from varve._progress import Progress, Telling
from varve._text import Pairs, Value, pairs, swept, texts

if TYPE_CHECKING:
    from varve._results import Results

__all__ = ["Scenario"]


class Scenario:
    """A whole experiment.

    Keys are those of a scenario file and of the drive (`varve list keys`): `scenario["gc.victim"] = "fifo"`. What
    is set to a list is swept: `scenario["buffer.policy"] = ["lru", "arc"]` is `sweep.buffer.policy`.
    """

    def __init__(self, set: "Pairs | None" = None) -> None:
        self._native = _varve.Scenario()
        self.update(set)

    @staticmethod
    def load(name: "str | os.PathLike[str]") -> "Scenario":
        """That of a file, or `@demo`."""
        return Scenario._of(_varve.Scenario.load(os.fspath(name)))

    @staticmethod
    def from_toml(toml: str, folder: "str | os.PathLike[str]" = "", name: str = "scenario") -> "Scenario":
        """That of a text; paths in it start from `folder`, and errors call it `name`."""
        return Scenario._of(_varve.Scenario.from_toml(name, toml, os.fspath(folder)))

    @staticmethod
    def _of(native: _varve.Scenario) -> "Scenario":
        made = Scenario()
        made._native = native
        return made

    def copy(self) -> "Scenario":
        """Another one that says the same."""
        return Scenario._of(self._native.copy())

    def set(self, key: str, value: Value) -> None:
        """Sets a key. A list is swept, but for seeds, which are one list of the scenario."""
        self._native.set(swept(key, value), ",".join(texts(value)))

    def __setitem__(self, key: str, value: Value) -> None:
        self.set(key, value)

    def update(self, given: "Pairs | None") -> None:
        """Sets several: a mapping, or texts `KEY=VALUE` as the command line has them."""
        for pair in pairs(given):
            key, equals, value = pair.partition("=")
            if not equals:
                raise ValueError(f"`{pair}`: expected key=value")
            self._native.set(key.strip(), value.strip())

    def to_toml(self) -> str:
        """The text of a scenario file that repeats this from any folder."""
        return self._native.to_toml()

    def points(self, progress: Progress = None) -> list[dict[str, Any]]:
        """Checks all of it, and gives its runs in their order: `n`, `name`, `params`, and `id`, or why it is
        `impossible`. What `varve points --json` prints."""
        with Telling(progress) as telling:
            index = json.loads(self._native.index(version, telling.call))
        found: list[dict[str, Any]] = index["points"]
        return found

    def run(self, **how: Any) -> "Results":
        """`varve.run` of it.

        >>> scenario = varve.Scenario.load("@demo")
        >>> scenario["buffer.policy"] = ["sieve"]
        >>> len(scenario.run())
        2
        """
        # Results know scenarios.
        from varve._runs import run

        return run(self, **how)

    def __repr__(self) -> str:
        return "<varve.Scenario>"

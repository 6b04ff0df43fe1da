"""A policy of Python beside the one that it should be: whether both do the same."""

from dataclasses import dataclass
from typing import Union

from varve import _varve
from varve._policy import Named
from varve._progress import Progress, Telling
from varve._text import text

__all__ = ["Twin", "twin"]

_One = Union[str, Named, "type[Named]"]


@dataclass(frozen=True)
class Twin:
    """What came of it: true if both did the same."""

    policy: str
    of: str
    # Entries of the buffer in which they differ, and pages of the drive beside it.
    entries: "int | None" = None
    pages: "int | None" = None
    # The accesses behind the last of which they differ, as few as were found: an operation, a page, the number of
    # the request.
    accesses: "tuple[tuple[str, int, int], ...]" = ()
    # What each had counted then.
    counted: "tuple[dict[str, int], ...]" = ()

    def __bool__(self) -> bool:
        return self.entries is None

    def __str__(self) -> str:
        if self:
            return f"{self.policy} does what {self.of} does"
        lines = [f"{self.policy} and {self.of} differ, with {self.entries} entries, behind {len(self.accesses)} accesses:"]
        lines += [f"  {op} {page}" if op != "flush" else "  flush" for op, page, _ in self.accesses]
        for name, counts in zip((self.policy, self.of), self.counted):
            lines.append(f"{name}: " + ", ".join(f"{what} {n}" for what, n in counts.items()))
        return "\n".join(lines)


def twin(
    policy: _One,
    of: _One,
    *,
    accesses: int = 1_000_000,
    seed: int = 1,
    discards: bool = True,
    progress: Progress = None,
) -> Twin:
    """Plays the same drawn accesses to two policies of the buffer, one of them usually a policy of the drive, and
    compares after each what the buffer has done. What differs is shortened to a few accesses, which the answer shows.

    >>> print(varve.twin("fifo", of="lru", seed=1))  # doctest: +ELLIPSIS
    fifo and lru differ, with ... entries, behind ... accesses:
    ...

    policy, of: classes, objects with options, or names. accesses: of all buffers together, small ones first. discards:
    pages are discarded too. An exception of a policy is raised as it is. What is drawn is the same for a seed.
    """
    names = (text(policy), text(of))
    with Telling(progress) as telling:
        found = _varve.lockstep(names, accesses, seed, discards, telling.call)
    if found is None:
        return Twin(*names)
    entries, pages, played, one, other = found
    return Twin(*names, entries, pages, tuple(played), (dict(one), dict(other)))

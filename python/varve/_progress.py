"""Who is told how far a run is."""

import sys
from collections.abc import Callable
from typing import Union

# A function of the number of requests since its last call; True: a line on standard error.
Progress = Union[Callable[[int], object], bool, None]


class _Line:
    """Counts on standard error, in place."""

    def __init__(self) -> None:
        self._requests = 0

    def __call__(self, since: int) -> None:
        self._requests += since
        print(f"\r{self._requests:,} requests", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._requests:
            print(file=sys.stderr)


class Telling:
    """A progress as the native part is given it; a line of ours is ended whatever happens."""

    def __init__(self, progress: Progress) -> None:
        if progress is not None and not isinstance(progress, bool) and not callable(progress):
            raise TypeError(f"progress={progress!r}: expected a function of one number, or True")
        self._line = _Line() if progress is True else None
        self.call: Callable[[int], object] | None = self._line or (progress if callable(progress) else None)

    def __enter__(self) -> "Telling":
        return self

    def __exit__(self, *_: object) -> None:
        if self._line:
            self._line.end()

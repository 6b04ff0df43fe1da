"""What is to be found out about the requests of a run, beside what every run tells."""

import os
from dataclasses import dataclass

__all__ = ["Looks", "looks"]

# Slices of a timeline at most, as of the command line.
_MOST_SLICES = 1_000_000


@dataclass(frozen=True)
class Looks:
    """What the native part is asked."""

    explain: bool = False
    requests: bool = False
    requests_out: "str | None" = None
    timeline: "tuple[str, str, int] | None" = None


def looks(
    explain: bool,
    requests: bool,
    requests_out: "str | os.PathLike[str] | None",
    timeline: "str | None",
    timeline_out: "str | os.PathLike[str] | None",
    timeline_max: "int | None",
) -> Looks:
    """The keywords of `sim` and `run`."""
    if (timeline is None) != (timeline_out is None):
        raise ValueError("timeline, timeline_out: expected both, a window such as \"20s..20.5s\" and a file")
    drawn = None
    if timeline is not None and timeline_out is not None:
        drawn = (timeline, os.fspath(timeline_out), _MOST_SLICES if timeline_max is None else timeline_max)
    out = None if requests_out is None else os.fspath(requests_out)
    return Looks(explain, requests, out, drawn)

"""What a run cost on this machine: the only clock of the package. Never part of a deterministic document."""

import time
from dataclasses import dataclass


@dataclass(frozen=True)
class Cost:
    """Of the whole process; what the system does not tell is 0."""

    wall_ms: int
    cpu_ms: int
    peak_rss: int


class Stopwatch:
    """Runs from where it is made."""

    def __init__(self) -> None:
        self._wall = time.monotonic()
        self._cpu = time.process_time()

    def cost(self) -> Cost:
        """Cost since the start; memory is the most of the whole process."""
        wall, cpu = time.monotonic() - self._wall, time.process_time() - self._cpu
        return Cost(round(wall * 1000), round(cpu * 1000), _peak_rss())


def _peak_rss() -> int:
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as lines:
            found = [line.split() for line in lines if line.startswith("VmHWM:")]
        return int(found[0][1]) * 1024
    except (OSError, IndexError, ValueError):
        return 0

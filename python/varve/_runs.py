"""Runs: a workload on a drive, a scenario, hits alone."""

import os
from collections.abc import Iterable
from typing import Union

from varve import _varve
from varve._cost import Stopwatch
from varve._errors import UnwrittenError
from varve._looks import Looks, looks
from varve._policy import BufferPolicy, CompiledPolicy
from varve._policy import version as of_policies
from varve._progress import Progress, Telling
from varve._results import Hits, Results
from varve._scenario import Scenario
from varve._text import Pairs, options, pairs, texts
from varve._trace import Load, load

__all__ = ["hits", "run", "sim"]

_Path = Union[str, "os.PathLike[str]"]
# A policy by its name, or as a class or an object of it.
_One = Union[str, BufferPolicy, type[BufferPolicy], type[CompiledPolicy]]
_Policies = Union[_One, Iterable[_One], None]
_Sizes = Union[str, int, Iterable[Union[str, int]], None]


def _threads(asked: int | None) -> int:
    if asked is None:
        return os.cpu_count() or 1
    if asked < 1:
        raise ValueError(f"threads={asked}: expected 1 or more")
    return asked


def _members(given: object) -> list[str] | None:
    return None if given is None else texts(given)


def _execute(scenario: Scenario, threads: int | None, wanted: Looks, progress: Progress) -> Results:
    watch = Stopwatch()
    with Telling(progress) as telling:
        native = _varve.run(scenario._native, of_policies, _threads(threads), wanted, telling.call)
    results = Results(native, watch.cost())
    if native.unwritten:
        raise UnwrittenError("; ".join(native.unwritten), results)
    return results


def sim(
    trace: Load,
    *,
    ssd: "_Path | None" = None,
    policy: _Policies = None,
    buffer: _Sizes = None,
    set: "Pairs | None" = None,
    threads: int | None = None,
    explain: bool = False,
    requests: bool = False,
    requests_out: "_Path | None" = None,
    timeline: str | None = None,
    timeline_out: "_Path | None" = None,
    timeline_max: int | None = None,
    progress: Progress = None,
    **more: object,
) -> Results:
    """`varve sim`: a trace, `@demo` or `gen:RECIPE` on a drive; by its name, or as `open` and `gen` give it.

    >>> runs = varve.sim("@demo", policy=["lru", "s3-fifo"], buffer="8M", set={"gc.victim": ["greedy", "fifo"]})
    >>> [(row["buffer.policy"], row["gc.victim"]) for row in runs.rows()][:2]
    [('lru', 'greedy'), ('lru', 'fifo')]

    ssd: a preset or a file. policy, buffer: policies and sizes of the buffer; several are swept; a policy is its
    name, or a class of Python. set: keys of the
    drive or of the scenario. more: options of `varve sim` with `_` for `-`: seed, mode, qd, per_app, speed,
    precondition, preload, measure_after, flush_every, scale ("1/64", or "fit"), fit, drop_flushes, title, and those
    of `varve.open`. explain: where the time went (`causes()`). requests: the log of the requests of the only run
    (`requests()`); requests_out: as a file, CSV. timeline, timeline_out: a window of time of the only run, such as
    "20s..20.5s", as a file for `varve view` and Perfetto (`varve.Timeline`). progress: a function of the number of
    requests since its last call, or True.
    """
    drive = None if ssd is None else os.fspath(ssd)
    lists = (_members(policy), _members(buffer))
    name, more = load(trace, more)
    native = _varve.sim_scenario(name, drive, *lists, pairs(set), options(more))
    wanted = looks(explain, requests, requests_out, timeline, timeline_out, timeline_max)
    return _execute(Scenario._of(native), threads, wanted, progress)


def run(
    scenario: "Scenario | _Path",
    *,
    set: "Pairs | None" = None,
    threads: int | None = None,
    explain: bool = False,
    requests: bool = False,
    requests_out: "_Path | None" = None,
    timeline: str | None = None,
    timeline_out: "_Path | None" = None,
    timeline_max: int | None = None,
    progress: Progress = None,
) -> Results:
    """`varve run`: a scenario, by itself or by the name of its file, or `@demo`; with keys that are set.

    >>> [row["buffer.policy"] for row in varve.run("@demo", set={"sweep.buffer.policy": "lru,arc"}).rows()]
    ['lru', 'lru', 'arc', 'arc']

    explain, requests, timeline and what belongs to them: as of `sim`.
    """
    asked = scenario.copy() if isinstance(scenario, Scenario) else Scenario.load(scenario)
    asked.update(set)
    wanted = looks(explain, requests, requests_out, timeline, timeline_out, timeline_max)
    return _execute(asked, threads, wanted, progress)


def hits(
    trace: Load,
    *,
    policies: _Policies = None,
    buffers: _Sizes = None,
    curve: str | None = None,
    ssd: "_Path | None" = None,
    set: "Pairs | None" = None,
    threads: int | None = None,
    progress: Progress = None,
    **more: object,
) -> Hits:
    """`varve sim --hits`: hit ratios of all policies and sizes over one reading of a trace, without flash or time.

    >>> for row in varve.hits("@demo", policies=["lru", "sieve"], buffers="8M").rows():
    ...     print(row["policy"], round(100 * row["hit_ratio"], 2))
    lru 16.7
    sieve 29.6

    curve: the miss-ratio curve of LRU too: "exact", or of a sample such as "1/100". ssd, set and more: as for `sim`,
    but for what only a run has: one seed, no sweeps, nothing above the drive, and of the replay nothing (mode, qd,
    per_app, speed, precondition, preload, measure_after, flush_every, share, slowdown).

    >>> varve.hits("@demo", mode="closed")
    Traceback (most recent call last):
    ...
    ValueError: replay.mode = closed: of runs; --hits counts all accesses, once
    """
    drive = None if ssd is None else os.fspath(ssd)
    lists = (_members(policies), _members(buffers))
    name, more = load(trace, more)
    asked = (name, drive, *lists, pairs(set), options(more), curve)
    with Telling(progress) as telling:
        version = of_policies(" ".join([*(lists[0] or []), *asked[4]]))
        return Hits(_varve.hits(*asked, version, _threads(threads), telling.call))

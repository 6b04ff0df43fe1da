"""Whether a policy of Python answers the same again: in this process and in others, whose `set`s have other orders."""

import hashlib
import os
import threading
from typing import Union

from varve._errors import PolicyError
from varve._policy import BufferPolicy, CompiledPolicy, Named, VictimPolicy
from varve._runs import hits, sim

__all__ = ["check"]

# The environment is of all threads.
_environment = threading.Lock()
# Seeds of hashes: with 0 they are not drawn, with the other they are others.
_SEEDS = ("0", "1")

_One = Union[Named, "type[Named]"]


def check(policy: _One, *, trace: str = "@demo", buffer: str = "8M") -> str:
    """Runs a policy twice in each of two processes, with two seeds for the hashes of texts (`PYTHONHASHSEED`), and
    compares all that comes out; answers a digest of it. `varve.PolicyError` says where it is not the same: a result
    of such a policy could be repeated by nobody.

        varve.check(MyPolicy)

    The class has to be in a module that another process can import. trace, buffer: what it is tried with.
    """
    kind = policy if isinstance(policy, type) else type(policy)
    if not issubclass(kind, (BufferPolicy, CompiledPolicy, VictimPolicy)):
        raise TypeError(f"{kind.__name__}: expected a policy written in Python")
    found = {f"PYTHONHASHSEED={seed}, {nth} time": told for seed in _SEEDS for nth, told in _elsewhere(seed, policy, trace, buffer)}
    (first, wanted), *others = found.items()
    for name, told in others:
        for what, digest in told.items():
            if digest != wanted[what]:
                raise PolicyError(
                    f"{kind.__name__} does not repeat: {what} with {name} is not what it is with {first} "
                    "(the order of a set of texts? random without a seed? something that outlives a buffer?)"
                )
    return hashlib.sha256("".join(wanted.values()).encode()).hexdigest()


def _elsewhere(seed: str, policy: _One, trace: str, buffer: str) -> "list[tuple[str, dict[str, str]]]":
    """What comes out in a process with this seed, the first time and the second."""
    # They take longer to import than all of the package, which few ask for this.
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    with _environment:
        before = os.environ.get("PYTHONHASHSEED")
        os.environ["PYTHONHASHSEED"] = seed
        try:
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
                return [(nth, pool.submit(_told, policy, trace, buffer).result()) for nth in ("the first", "the second")]
        except BrokenProcessPool as error:
            raise ValueError(
                f"{policy}: no other process could run it: expected a class of a module that can be imported there, "
                "and `if __name__ == \"__main__\":` around what a script does"
            ) from error
        finally:
            if before is None:
                del os.environ["PYTHONHASHSEED"]
            else:
                os.environ["PYTHONHASHSEED"] = before


def _told(policy: _One, trace: str, buffer: str) -> "dict[str, str]":
    """Digests of what comes out here."""
    kind = policy if isinstance(policy, type) else type(policy)
    if issubclass(kind, VictimPolicy):
        documents = {"a run": sim(trace, policy="lru", buffer=buffer, set={"gc.victim": policy}).json(deterministic=True)}
    else:
        documents = {
            "a count of hits": hits(trace, policies=policy, buffers=buffer).json(deterministic=True),  # type: ignore[arg-type]
            "a run": sim(trace, policy=policy, buffer=buffer).json(deterministic=True),  # type: ignore[arg-type]
        }
    return {what: hashlib.sha256(text.encode()).hexdigest() for what, text in documents.items()}

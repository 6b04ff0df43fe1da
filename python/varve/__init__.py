"""varve: a flash storage stack in user space.

    import varve
    runs = varve.sim("@demo", policy=["lru", "s3-fifo"], buffer="8M")
    print(runs.df()[["buffer.policy", "waf"]])

What the command line does with traces, scenarios and sweeps, with the same words, the same errors and the same
bytes: docs/guide-python.md. Nothing else has to be installed; what pandas, polars, pyarrow or matplotlib are for
says so if they are missing. The module `varve.sqlite` needs the library of the VFS, `varve.torture` the program.
"""

import importlib
import typing

if typing.TYPE_CHECKING:
    from varve._errors import CheckError, InternalError, RunError
    from varve._results import Hits, Results
    from varve._runs import hits, run, sim
    from varve._scenario import Scenario
    from varve._trace import Batch, Trace, open
    from varve._varve import VERSION as __version__

# Where each name is. The modules need the built `_varve`; `varve.sqlite` and `varve.torture` work without it, from a
# checkout: so nothing is imported before it is asked for.
_PLACES = {
    "_errors": ("CheckError", "InternalError", "RunError"),
    "_results": ("Hits", "Results"),
    "_runs": ("hits", "run", "sim"),
    "_scenario": ("Scenario",),
    "_trace": ("Batch", "Trace", "open"),
    "_varve": ("__version__",),
}


def __getattr__(name: str) -> object:
    for module, names in _PLACES.items():
        if name in names:
            try:
                there = importlib.import_module(f"varve.{module}")
            except ImportError as error:
                text = f"varve.{name} needs the built package (scripts/python, or its wheel): {error}"
                raise ImportError(text) from error
            value = getattr(there, "VERSION" if name == "__version__" else name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'varve' has no attribute {name!r}")


__all__ = [
    "Batch",
    "CheckError",
    "Hits",
    "InternalError",
    "Results",
    "RunError",
    "Scenario",
    "Trace",
    "__version__",
    "hits",
    "open",
    "run",
    "sim",
]

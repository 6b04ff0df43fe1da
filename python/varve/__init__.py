"""varve: a flash storage stack in user space.

    import varve
    runs = varve.sim("@demo", policy=["lru", "s3-fifo"], buffer="8M")
    print(runs.df()[["buffer.policy", "waf"]])

What the command line does with traces, scenarios and sweeps, with the same words, the same errors and the same
bytes: docs/guide-python.md. Nothing else has to be installed; what pandas, polars, pyarrow or matplotlib are for
says so if they are missing. The module `varve.sqlite` needs the library of the VFS, `varve.torture` the program.
"""

from varve._errors import CheckError, InternalError, RunError
from varve._results import Hits, Results
from varve._runs import hits, run, sim
from varve._scenario import Scenario
from varve._trace import Batch, Trace, open
from varve._varve import VERSION as __version__

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

"""All that `import varve` names, from where it is."""

from varve._drive import Drive
from varve._errors import CheckError, InternalError, PolicyError, RunError
from varve._options import Option, count, flag, share, size, word
from varve._policy import BYPASS, BufferPolicy, VictimPolicy
from varve._results import Hits, Results
from varve._runs import hits, run, sim
from varve._scenario import Scenario
from varve._sweep import Sweep, Unit, run_unit, sweep
from varve._tables import Table
from varve._trace import Batch, Trace, from_arrow, gen, open
from varve._varve import VERSION as __version__
from varve._varve import AccessInfo, Line, Lines

__all__ = [
    "BYPASS",
    "AccessInfo",
    "Batch",
    "BufferPolicy",
    "CheckError",
    "Drive",
    "Hits",
    "InternalError",
    "Line",
    "Lines",
    "Option",
    "PolicyError",
    "Results",
    "RunError",
    "Scenario",
    "Sweep",
    "Table",
    "Trace",
    "Unit",
    "VictimPolicy",
    "__version__",
    "count",
    "flag",
    "from_arrow",
    "gen",
    "hits",
    "open",
    "run",
    "run_unit",
    "share",
    "sim",
    "size",
    "sweep",
    "word",
]

"""All that `import varve` names, from where it is."""

from varve._check import check
from varve._compare import Comparison
from varve._compiled import compiled_policy
from varve._drive import Drive
from varve._errors import CheckError, InternalError, PolicyError, RunError, ToleranceError, UnwrittenError
from varve._fetch import keep
from varve._options import Option, count, flag, share, size, word
from varve._papers import Proof, Study, prove, reproduce
from varve._policy import BYPASS, BufferPolicy, CompiledPolicy, VictimPolicy
from varve._results import Hits, Requests, Results, load
from varve._run import Latency, Run
from varve._runs import hits, run, sim
from varve._scenario import Scenario
from varve._skeleton import twin_skeleton
from varve._sweep import Sweep, Unit, run_unit, sweep
from varve._tables import Table
from varve._timeline import Timeline
from varve._trace import Batch, Trace, from_arrow, gen, open
from varve._twin import Twin, twin
from varve._varve import VERSION as __version__
from varve._varve import AccessInfo, Line, Lines

__all__ = [
    "AccessInfo",
    "BYPASS",
    "Batch",
    "BufferPolicy",
    "CheckError",
    "Comparison",
    "CompiledPolicy",
    "Drive",
    "Hits",
    "InternalError",
    "Latency",
    "Line",
    "Lines",
    "Option",
    "PolicyError",
    "Proof",
    "Requests",
    "Results",
    "Run",
    "RunError",
    "Scenario",
    "Study",
    "Sweep",
    "Table",
    "Timeline",
    "ToleranceError",
    "Trace",
    "Twin",
    "Unit",
    "UnwrittenError",
    "VictimPolicy",
    "__version__",
    "check",
    "compiled_policy",
    "count",
    "flag",
    "from_arrow",
    "gen",
    "hits",
    "keep",
    "load",
    "open",
    "prove",
    "reproduce",
    "run",
    "run_unit",
    "share",
    "sim",
    "size",
    "sweep",
    "twin",
    "twin_skeleton",
    "word",
]

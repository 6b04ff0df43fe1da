"""The native part. Users are given what the modules beside it make of it."""

from collections.abc import Callable, Iterator
from typing import Any, final

_Progress = Callable[[int], object] | None
# Of the text of a scenario, the version that its results carry.
_Version = Callable[[str], str]
_Options = list[tuple[str, str]]

__all__ = [
    "AccessInfo",
    "BYPASS",
    "Batch",
    "Batches",
    "Bypass",
    "CheckError",
    "InternalError",
    "Line",
    "Lines",
    "PolicyError",
    "Results",
    "RunError",
    "Scenario",
    "Trace",
    "VERSION",
    "add_policy",
    "add_victim",
    "hits",
    "run",
    "sim_scenario",
]

VERSION: str

class RunError(RuntimeError): ...
class PolicyError(RuntimeError): ...
class CheckError(RuntimeError): ...
class InternalError(RuntimeError): ...

@final
class Bypass: ...

BYPASS: Bypass

@final
class AccessInfo:
    """What is known of an access beside its page."""

    @property
    def write(self) -> bool: ...
    @property
    def request(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def length(self) -> int: ...
    @property
    def app(self) -> int: ...
    @property
    def hint(self) -> int: ...
    @property
    def index(self) -> int: ...

@final
class Line:
    """A closed line."""

    @property
    def line(self) -> int: ...
    @property
    def valid(self) -> int: ...
    @property
    def slots(self) -> int: ...
    @property
    def closed_at(self) -> int: ...

@final
class Lines:
    """The closed lines, those closed first before the others."""

    @property
    def now(self) -> int: ...
    @property
    def line(self) -> list[int]: ...
    @property
    def valid(self) -> list[int]: ...
    @property
    def slots(self) -> list[int]: ...
    @property
    def closed_at(self) -> list[int]: ...
    def __len__(self) -> int: ...
    def __getitem__(self, at: int, /) -> Line: ...
    def __iter__(self) -> Iterator[Line]: ...

@final
class Batch:
    """Requests of a trace, as columns."""

    def __len__(self) -> int: ...
    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
    def column(self, name: str) -> list[Any]:
        """One column."""
    def rows(self) -> list[dict[str, Any]]:
        """A dict for each request."""
    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]: ...

@final
class Batches(Iterator[Batch]):
    def __iter__(self) -> Batches: ...
    def __next__(self) -> Batch: ...

@final
class Trace:
    def __new__(cls, name: str, options: _Options) -> Trace: ...
    @property
    def name(self) -> str: ...
    @property
    def format(self) -> str: ...
    @property
    def compression(self) -> str: ...
    def document(self, version: str, progress: _Progress = None) -> str: ...
    def __iter__(self) -> Batches: ...
    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...

@final
class Scenario:
    def __new__(cls) -> Scenario: ...
    @staticmethod
    def load(name: str) -> Scenario: ...
    @staticmethod
    def from_toml(name: str, text: str, folder: str) -> Scenario: ...
    def copy(self) -> Scenario: ...
    def set(self, key: str, value: str) -> None: ...
    def to_toml(self) -> str: ...
    def index(self, version: _Version, progress: _Progress = None) -> str: ...

@final
class Results:
    def text(self) -> str: ...
    def text_with_cost(self, wall_ms: int, cpu_ms: int, peak_rss: int) -> str: ...
    @property
    def scenario(self) -> str: ...
    def columns(self) -> list[tuple[str, str]]: ...
    def cells(self) -> list[list[Any]]: ...
    def csv(self) -> str: ...

def add_policy(
    name: str,
    doc: str,
    options: list[tuple[str, str, list[str], str, str]],
    factory: Callable[[dict[str, Any], dict[str, int]], object],
) -> None: ...
def add_victim(name: str, doc: str, factory: Callable[[], object]) -> None: ...
def sim_scenario(
    trace: str,
    ssd: str | None,
    policies: list[str] | None,
    buffers: list[str] | None,
    set: list[str],
    options: _Options,
) -> Scenario: ...
def run(scenario: Scenario, version: _Version, threads: int, progress: _Progress = None) -> Results: ...
def hits(
    trace: str,
    ssd: str | None,
    policies: list[str] | None,
    buffers: list[str] | None,
    set: list[str],
    options: _Options,
    curve: str | None,
    version: str,
    threads: int,
    progress: _Progress = None,
) -> str: ...

"""Policies written in Python: which pages a buffer keeps, and which line is cleaned.

A policy is a class. Its name stands wherever that of a policy of the drive does, and so does the class itself:

    >>> class Mru(varve.BufferPolicy):
    ...     def start(self, entries, shape):
    ...         self.pages = []
    ...     def hit(self, page):
    ...         self.pages.remove(page)
    ...         self.pages.append(page)
    ...     def admit(self, page, full):
    ...         victim = self.pages.pop() if full else None
    ...         self.pages.append(page)
    ...         return victim
    ...     def discarded(self, page):
    ...         self.pages.remove(page)
    >>> len(varve.hits("@demo", policies=["lru", Mru], buffers="1M"))
    2

Each buffer has an object of its own. The same inputs have to give the same answers: the order of a `set` of texts
or `random` without a seed make results that nobody can repeat.
"""

import copy
import functools
import hashlib
import inspect
import re
import types
from collections.abc import Callable
from typing import Any, ClassVar

from varve import _varve
from varve._options import Option

__all__ = ["BYPASS", "BufferPolicy", "CompiledPolicy", "Named", "VictimPolicy", "of_text", "version"]

# What `admit` answers if the page is not to enter: a read goes to flash, a write through.
BYPASS = _varve.BYPASS

# The class that each name stands for.
_named: "dict[str, type[Named]]" = {}


class _ByNameOrOptions:
    """A method of the class and of its objects: of the class it has no options."""

    def __init__(self, of: Callable[..., str]) -> None:
        self._of = of

    def __get__(self, given: Any, owner: Any) -> Callable[[], str]:
        return functools.partial(self._of, owner, {} if given is None else given._given)


class Named:
    """A class with a name in scenarios."""

    # Its name in scenarios; by default that of the class: `MyPolicy` is `my-policy`.
    name: ClassVar[str] = ""
    _given: dict[str, object]

    @classmethod
    def _name(cls) -> str:
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", cls.__name__).lower().strip("_").replace("_", "-")
        return cls.__dict__.get("name") or words

    @classmethod
    def _registered(cls) -> str:
        name = cls._name()
        if not re.fullmatch(r"[a-z][a-z0-9-]*", name):
            raise ValueError(f"a policy called `{name}`: expected small letters, digits and -")
        if _named.get(name) is not cls:
            cls._register(name, (inspect.getdoc(cls) or "").partition("\n")[0])
            _named[name] = cls
        return name

    @classmethod
    def _register(cls, name: str, doc: str) -> None:
        raise NotImplementedError

    def _text(owner: "type[Named]", given: dict[str, object]) -> str:  # type: ignore[misc]
        from varve._text import text

        options = ", ".join(f"{name}={text(value)}" for name, value in given.items())
        return owner._registered() + (f"({options})" if options else "")

    _varve_text_ = _ByNameOrOptions(_text)


def _takes(function: Callable[..., Any], name: str) -> bool:
    return name in inspect.signature(function).parameters


class BufferPolicy(Named):
    """Which pages the buffer keeps.

    `hit` and `admit` may have a parameter `access` after `page`: request, write, offset, length, app, hint, index. It
    costs an object for each call.
    """

    # Options by their names: `options = {"window": varve.share("50 %")}`. An object with others than the defaults is
    # `MyPolicy(window="25 %")`; what it was given is `self.window` from `start` on.
    options: ClassVar[dict[str, Option]] = {}

    def __init__(self, **options: object) -> None:
        unknown = [name for name in options if name not in self.options]
        if unknown:
            known = ", ".join(self.options) or "none"
            raise TypeError(f"{type(self).__name__} has no option {unknown[0]}; its options: {known}")
        self._given = options

    def start(self, entries: int, shape: dict[str, int]) -> None:
        """Of a buffer with so many entries; shape: pages of the drive, seed, planes, page_entries, block_pages."""

    def hit(self, page: int) -> None:
        """A page in the buffer is accessed."""

    def admit(self, page: int, full: bool) -> Any:
        """A page that is not there is accessed, and enters; full: there is no free entry.

        Answers the page that leaves for it, several, or None if none has to, or `varve.BYPASS`.
        """
        raise NotImplementedError(f"{type(self).__name__} has no method admit(self, page, full)")

    def discarded(self, page: int) -> None:
        """A page has left because its data was discarded."""
        raise NotImplementedError(
            f"the workload discards pages, and {type(self).__name__} has no method discarded(self, page)"
        )

    def forgotten(self, pages: range) -> None:
        """The data of these pages was discarded; those that were in the buffer have left. For who remembers pages that are
        not there."""

    def flushed(self, page: int) -> None:
        """A page was written back, and stays."""

    @classmethod
    def _register(cls, name: str, doc: str) -> None:
        options = [(key, of.kind, list(of.words), of.default, of.doc) for key, of in cls.options.items()]
        _varve.add_policy(name, doc, options, cls._started)

    @classmethod
    def _started(cls, options: dict[str, Any], shape: dict[str, int]) -> "_Calls":
        made = cls()
        for name, value in options.items():
            setattr(made, name, value)
        entries = shape.pop("entries")
        made.start(entries, shape)
        return _Calls(made)


class _Calls:
    """The methods of an object that are called, looked up once."""

    def __init__(self, policy: BufferPolicy) -> None:
        kind = type(policy)
        # What is inherited does nothing: it is not worth a call.
        self.hit = None if kind.hit is BufferPolicy.hit else policy.hit
        self.hit_takes_access = _takes(policy.hit, "access")
        self.admit = policy.admit
        self.admit_takes_access = _takes(policy.admit, "access")
        self.discarded = policy.discarded
        self.forgotten = None if kind.forgotten is BufferPolicy.forgotten else policy.forgotten
        self.flushed = None if kind.flushed is BufferPolicy.flushed else policy.flushed
        self.copy: Callable[[], _Calls] = lambda: _Calls(copy.deepcopy(policy))


class CompiledPolicy(Named):
    """What `varve.compiled_policy` makes of a class: its functions are compiled once, when its name is first needed."""

    # The compiled code is looked for by address: it is kept by the registry for as long as the process lives.
    _compile: ClassVar[Callable[[], Any]]

    def __init__(self) -> None:
        self._given: dict[str, object] = {}

    @classmethod
    def _register(cls, name: str, doc: str) -> None:
        _varve.add_compiled(name, doc, cls._compile())


class VictimPolicy(Named):
    """Which closed line is cleaned next.

        class Oldest(varve.VictimPolicy):
            def choose(self, lines):
                return lines[0].line

    `lines` has the closed lines, those closed first before the others: each with line (its number), valid, slots and
    closed_at; `lines.valid` and so on are columns, `lines.now` is the clock of `closed_at` (slots programmed). A line
    without anything to gain is refused, and another asked for or the emptiest taken.
    """

    # Whether a line without gain is collected all the same because it is its turn.
    in_turn: ClassVar[bool] = False

    _given: dict[str, object] = {}

    def start(self) -> None:
        """Of a drive, before the first choice."""

    def choose(self, lines: _varve.Lines) -> int:
        """The number of the line to be cleaned."""
        raise NotImplementedError(f"{type(self).__name__} has no method choose(self, lines)")

    @classmethod
    def _register(cls, name: str, doc: str) -> None:
        _varve.add_victim(name, doc, _Chooser(cls))


class _Chooser:
    """Makes the objects of a class that are asked."""

    def __init__(self, kind: type[VictimPolicy]) -> None:
        self._kind = kind
        self.in_turn = bool(kind.in_turn)

    def __call__(self) -> object:
        made = self._kind()
        made.start()
        return _asked(made)


def _asked(policy: VictimPolicy) -> tuple[Callable[..., Any], Callable[[], Any]]:
    return policy.choose, lambda: _asked(copy.deepcopy(policy))


def of_text(text: str) -> "list[type[Named]]":
    """Classes whose names stand in a text: that of a scenario, or of a list of policies."""
    words = set(re.findall(r"[a-z][a-z0-9-]*", text))
    return [kind for name, kind in sorted(_named.items()) if name in words]


# What Python puts into a class, and what says only where it stands.
_ABOUT = frozenset(
    "__dict__ __weakref__ __doc__ __module__ __qualname__ __firstlineno__ __static_attributes__ __annotations__ "
    "__annotate__ __annotate_func__ __annotations_cache__ __abstractmethods__ __parameters__ __orig_bases__ "
    "__type_params__ _abc_impl".split()
)


def _source(of: Any) -> str:
    try:
        return inspect.getsource(of)
    except (OSError, TypeError):
        return ""


def _said(value: object, known: bool = False, seen: frozenset[int] = frozenset()) -> str:
    """A value as a text that says no address, and is the same in each process; known: what the source of a function
    says is said elsewhere."""
    if id(value) in seen:
        return "again"
    seen = seen | {id(value)}
    if isinstance(value, types.CodeType):
        consts = [_said(const, False, seen) for const in value.co_consts]
        return repr((value.co_name, value.co_code, value.co_names, value.co_varnames, value.co_freevars, consts))
    if isinstance(value, types.FunctionType):
        # A cell may be empty as yet.
        cells = [cell.cell_contents for cell in value.__closure__ or () if cell != types.CellType()]
        held = [_said(one, False, seen) for one in (value.__defaults__, value.__kwdefaults__, cells)]
        return repr(held if known else (_source(value) or _said(value.__code__, False, seen), held))
    if isinstance(value, (staticmethod, classmethod)):
        return f"{type(value).__name__} {_said(value.__func__, known, seen)}"
    if isinstance(value, property):
        return repr([_said(one, known, seen) for one in (value.fget, value.fset, value.fdel)])
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, (set, frozenset)):
        return repr(sorted(_said(one, False, seen) for one in value))
    if isinstance(value, (list, tuple)):
        return repr([_said(one, False, seen) for one in value])
    if isinstance(value, dict):
        return repr([(_said(key, False, seen), _said(one, False, seen)) for key, one in value.items()])
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes, Option)):
        return repr(value)
    # Of what else there is, only what it is.
    return type(value).__qualname__


def _digest(kind: type) -> bytes:
    """Of what a class does, as far as it can be seen: its source and its values, and those of the classes it is made of
    but for ours."""
    said = []
    for one in kind.__mro__:
        if one is object or one.__module__.partition(".")[0] == "varve":
            continue
        source = _source(one)
        said.append(source)
        # One source may make several classes: values it takes from outside are no part of it.
        values = sorted((pair for pair in vars(one).items() if pair[0] not in _ABOUT), key=lambda pair: pair[0])
        said += [f"{name} = {_said(value, bool(source))}" for name, value in values]
    return "\0".join(said).encode()


def version(text: str) -> str:
    """The version that results of a scenario of this text carry: with policies of Python it says which they are."""
    kinds = of_text(text)
    if not kinds:
        return _varve.VERSION
    digest = hashlib.sha256(b"\0".join(_digest(kind) for kind in kinds)).hexdigest()[:12]
    names = ".".join(kind._name() for kind in kinds)
    return f"{_varve.VERSION}{'.' if '+' in _varve.VERSION else '+'}python.{names}.{digest}"

"""Policies that are compiled: functions of numba over arrays of numpy, which the buffer calls without Python."""

import importlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from varve._policy import CompiledPolicy
from varve._tables import needed

__all__ = ["compiled_policy"]

# Functions that a policy may have, and what those that must answer, do.
_FUNCTIONS = ("start", "hit", "victim", "inserted", "removed", "flushed")
_PARAMETERS = ("head", "rows", "row", "page", "write")
# A type of numpy for a record: names and formats of its fields.
_Fields = Sequence[tuple[str, str]]

# What is compiled for each function: the arrays are made of pointers, and an exception becomes a number.
_CALL = """
def call(head_at, rows_at, count, row, page, write):
    try:
        head = carray(head_at, 1)[0]
        rows = carray(rows_at, count)
        {answer}inner({arguments})
        {end}
    except Exception:
        return -1
"""


@dataclass(frozen=True)
class Compiled:
    """Addresses of the functions, 0 for what there is not, and sizes in bytes; `kept` is their code."""

    head_bytes: int
    row_bytes: int
    kept: "tuple[Any, ...]"
    start: int = 0
    hit: int = 0
    victim: int = 0
    inserted: int = 0
    removed: int = 0
    flushed: int = 0


def _compiled(method: Callable[..., Any], name: str, head: Any, rows: Any) -> Any:
    """A C function for a method."""
    numba = importlib.import_module("numba")
    parameters = list(inspect.signature(method).parameters)
    unknown = [one for one in parameters if one not in _PARAMETERS]
    if unknown:
        raise TypeError(f"{name}(.. {unknown[0]} ..): expected some of the parameters {', '.join(_PARAMETERS)}")
    arguments = ", ".join("write != 0" if one == "write" else one for one in parameters)
    answers = name == "victim"
    text = _CALL.format(
        arguments=arguments,
        answer="said = " if answers else "",
        # Below zero is no row, and -1 an exception.
        end="return said if said >= 0 else -2" if answers else "return 0",
    )
    # An index beyond the rows is an exception, not memory of others.
    inner = numba.njit(boundscheck=True)(method)
    names: dict[str, Any] = {"carray": numba.carray, "inner": inner}
    exec(text, names)
    i8, pointer = numba.int64, numba.types.CPointer
    signature = i8(pointer(numba.from_dtype(head)), pointer(numba.from_dtype(rows)), i8, i8, i8, i8)
    return numba.cfunc(signature)(names["call"])


def compiled_policy(*, row: _Fields, head: _Fields = (("unused", "i8"),)) -> Callable[[type], "type[CompiledPolicy]"]:
    """Makes a policy of a class of functions, which numba compiles when it is first used:

        @varve.compiled_policy(row=[("hit", "i1")], head=[("hand", "i8")])
        class NumbaClock:
            def hit(rows, row):
                rows[row].hit = 1

            def victim(head, rows):
                while rows[head.hand].hit:
                    rows[head.hand].hit = 0
                    head.hand = (head.hand + 1) % len(rows)
                return head.hand

            def inserted(head, rows, row):
                rows[row].hit = 0
                ...

    row: the fields of what is kept for each entry of the buffer, names and formats of numpy. head: those that there
    are once. All begin as zeros. The functions have no `self`; each takes those it needs of the parameters

    * `head`, a record; `rows`, an array of records, one for each entry;
    * `row`, the entry that is spoken of; `page`, the number of the page; `write`, whether it is written.

    `hit`: a page in the buffer is accessed, it is in `row`. `victim` answers the row that leaves when the buffer is
    full; `page` enters. `inserted`: a page is in `row` now. `removed`: its data was discarded, and the row is empty.
    `flushed`: it was written back, and stays. `start`: the first call, `row` and `page` are 0. All but `victim` may be left out.

    There is no interpreter in it: an access costs as much as one of a policy of the drive. An exception, an index
    beyond the rows, and a row without a page end the run: `varve.PolicyError`.
    """

    def made(of: type) -> "type[CompiledPolicy]":
        if "victim" not in vars(of):
            raise TypeError(f"{of.__name__} has no function victim(head, rows)")
        functions = {name: value for name, value in vars(of).items() if inspect.isfunction(value)}
        unknown = [name for name in functions if name not in _FUNCTIONS]
        if unknown:
            raise TypeError(f"{of.__name__}.{unknown[0]}: expected some of the functions {', '.join(_FUNCTIONS)}")

        def compile_them() -> Compiled:
            needed("numba", "compiled_policy")
            numpy = needed("numpy", "compiled_policy")
            dtypes = [numpy.dtype(list(fields), align=True) for fields in (head, row)]
            code = {name: _compiled(value, name, *dtypes) for name, value in functions.items()}
            addresses = {name: function.address for name, function in code.items()}
            head_bytes, row_bytes = (of.itemsize for of in dtypes)
            return Compiled(head_bytes, row_bytes, tuple(code.values()), **addresses)

        names = {**functions, "name": vars(of).get("name", ""), "__doc__": of.__doc__, "_compile": staticmethod(compile_them)}
        names |= {"__module__": of.__module__, "__qualname__": of.__qualname__}
        return type(of.__name__, (CompiledPolicy,), names)

    return made

"""Values of Python as the texts that keys and options are given."""

from collections.abc import Iterable, Mapping
from typing import Union

# What a key may be given; a list is of texts and numbers.
Value = Union[str, int, float, object, Iterable[object]]
# Keys and their values: as a mapping, or each as "KEY=VALUE".
Pairs = Union[Mapping[str, Value], Iterable[str]]


def text(value: object) -> str:
    """One value: True is `on`, a policy its name."""
    policy = getattr(value, "_varve_text_", None)
    if policy is not None:
        return str(policy())
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, (str, int, float)):
        return str(value)
    raise TypeError(f"{value!r}: expected a text, a number or a policy")


def texts(value: object) -> list[str]:
    """The members of a list; one value is a list of itself."""
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return [text(member) for member in value]
    return [text(value)]


def is_list(value: object) -> bool:
    """Whether a value has members."""
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes))


def swept(key: str, value: object) -> str:
    """The key that a value is set under: what is a list is swept, but for seeds, which are one list."""
    plain = not is_list(value) or key in ("seed", "seeds") or key.startswith("sweep.")
    return key if plain else f"sweep.{key}"


def pairs(given: "Pairs | None") -> list[str]:
    """As the options `--set` of the command line."""
    if given is None:
        return []
    if isinstance(given, str):
        return [given]
    if isinstance(given, Mapping):
        return [f"{swept(key, value)}={','.join(texts(value))}" for key, value in given.items()]
    return [text(pair) for pair in given]


def options(given: Mapping[str, object]) -> list[tuple[str, str]]:
    """Keyword arguments as options: `per_app=True` is `per-app` = `on`. What is None or False is not given."""
    named = ((name.replace("_", "-"), value) for name, value in given.items())
    return [(name, ",".join(texts(value))) for name, value in named if value is not None and value is not False]

"""What a policy can be told, in parentheses after its name: `my-policy(window=25 %)`."""

from dataclasses import dataclass

__all__ = ["Option", "count", "flag", "share", "size", "word"]


@dataclass(frozen=True)
class Option:
    """One option of a policy."""

    kind: str
    default: str
    doc: str = ""
    words: tuple[str, ...] = ()


def share(default: str, doc: str = "") -> Option:
    """A share such as "50 %": the policy is given that share of all entries, rounded down."""
    return Option("share", default, doc)


def count(default: int, doc: str = "") -> Option:
    """A whole number."""
    return Option("count", str(default), doc)


def size(default: str, doc: str = "") -> Option:
    """A size such as "1 MiB": the policy is given bytes."""
    return Option("size", default, doc)


def flag(default: bool, doc: str = "") -> Option:
    """A switch."""
    return Option("flag", "on" if default else "off", doc)


def word(default: str, *others: str, doc: str = "") -> Option:
    """One of some words."""
    return Option("word", default, doc, (default, *others))

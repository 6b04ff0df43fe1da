"""Traces by their digests: `sha256:HEX@URL`, kept in the folder that `$VARVE_TRACES` names."""

import os
import shutil

from varve import _varve

__all__ = ["is_url", "keep"]


def _fetch(url: str, file: "str | os.PathLike[str]") -> None:
    """What the library calls where `$VARVE_FETCH` names no program."""
    try:
        import fsspec  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError as error:
        text = "$VARVE_FETCH names no program that fetches (URL FILE), and fsspec is not installed (pip install fsspec)"
        raise ImportError(text) from error
    with fsspec.open(url, "rb") as source, open(file, "wb") as into:
        shutil.copyfileobj(source, into, 1 << 20)


_varve.fetch_by(_fetch)


def is_url(name: str) -> bool:
    """Whether somebody has to fetch what is called so, whatever it is."""
    return "://" in name and not name.startswith(("sha256:", "gen:"))


def keep(source: "str | os.PathLike[str]") -> str:
    """Puts a trace into the folder that `$VARVE_TRACES` names, from a file or a URL, and says what it is called on
    every host: `sha256:HEX`, and `@URL` behind it if it has one.

    `varve.sim`, `varve.open`, scenarios and the workers of a sweep take that name: who has the trace reads it, who has
    not fetches it once, by the program that `$VARVE_FETCH` names (called with URL and file) or with fsspec, and refuses
    other bytes.
    """
    return _varve.keep(os.fspath(source))

"""The program `varve`, for what the package itself has not: whole studies, searches, crash tests of programs."""

import json
import os
import subprocess
from collections.abc import Iterable
from typing import Any

__all__ = ["NotHere", "document"]


class NotHere(Exception):
    """There is no such program, or this machine does not allow what it was asked for."""


def document(words: Iterable[object], passes: tuple[int, ...] = (0,), **more: Any) -> dict[str, Any]:
    """The document that the program prints.

    It is looked for in the variable VARVE, then on the PATH. Control-C ends it, and nothing of it stays. passes: exit
    codes with which a document is an answer.
    """
    line = [os.environ.get("VARVE", "varve"), *map(str, words)]
    try:
        ran = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True, **more)
    except FileNotFoundError as error:
        text = f"{line[0]}: {error.strerror}: expected the program in the variable VARVE, or `varve` on the PATH"
        raise NotHere(text) from error
    try:
        found: dict[str, Any] = json.loads(ran.stdout)
    except ValueError:
        found = {}
    if ran.returncode in passes and found:
        return found
    # Exit code 1 without a document: this machine does not allow it. Others: the words are wrong.
    said = ran.stderr.strip() or f"{line[0]} ended with {ran.returncode} and said nothing"
    raise (NotHere if ran.returncode == 1 else ValueError)(said.removeprefix("varve: "))

"""The papers' experiments, and the search for broken promises: by the program, with its documents as results."""

import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from varve._html import table
from varve._program import document
from varve._tables import Tabular

__all__ = ["Proof", "Study", "prove", "reproduce"]

_PAPERS = ("remap", "scj", "isolation", "nolog", "compose")
_COLUMNS = ("figure", "what", "paper", "expect", "here", "verdict", "condition", "why")


class Study(Tabular):
    """A paper's numbers beside ours: a row for each number under each of its conditions."""

    def __init__(self, document: dict[str, Any]) -> None:
        # The document of `varve reproduce PAPER --json`: claims, checks, and the tables in `results`.
        self.document = document

    @property
    def claims(self) -> list[dict[str, Any]]:
        """The paper's numbers, as the document has them."""
        found: list[dict[str, Any]] = self.document["results"]["claims"]
        return found

    @property
    def tables(self) -> dict[str, "StudyTable"]:
        """Each of its tables, by its id."""
        return {section["id"]: StudyTable(section) for section in self.document["results"]["sections"]}

    def columns(self) -> dict[str, str]:
        return dict.fromkeys(_COLUMNS, "text")

    def _cells(self) -> list[list[Any]]:
        rows = []
        for claim in self.claims:
            for one in claim.get("under") or [claim]:
                rows.append([one.get(name, claim.get(name)) for name in _COLUMNS])
        return rows

    def __repr__(self) -> str:
        counts: dict[str, int] = {}
        for claim in self.claims:
            counts[claim["verdict"]] = counts.get(claim["verdict"], 0) + 1
        told = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
        return f"<varve.Study {self.document['config']['command']}: {told}>"


class StudyTable(Tabular):
    """A table of a study: numbers in the unit of their column."""

    def __init__(self, section: dict[str, Any]) -> None:
        self._section = section
        self.title, self.note = section["title"], section["note"]

    def columns(self) -> dict[str, str]:
        numeric = self._numeric()
        return {
            column["id"]: column.get("unit", "ratio") if number else "text"
            for column, number in zip(self._section["columns"], numeric)
        }

    def _numeric(self) -> list[bool]:
        def number(at: int) -> bool:
            cells = [row[at] for row in self._section["rows"] if row[at] is not None]
            return bool(cells) and all(isinstance(cell, (int, float)) for cell in cells)

        return [number(at) for at in range(len(self._section["columns"]))]

    def _cells(self) -> list[list[Any]]:
        numeric = self._numeric()

        def cell(value: Any, number: bool) -> Any:
            return value if number or value is None else str(value)

        return [[cell(value, number) for value, number in zip(row, numeric)] for row in self._section["rows"]]

    def _repr_html_(self) -> str:
        return table(self.columns(), self._cells())


def reproduce(
    paper: str,
    *,
    quick: bool = False,
    full: bool = False,
    data: "str | os.PathLike[str] | None" = None,
    seeds: int | None = None,
    threads: int | None = None,
) -> Study:
    """A paper's experiments: `varve reproduce PAPER`, which needs the program and its folder of traces.

    paper: remap, scj, isolation, nolog or compose; quick: some tens of seconds instead of minutes; data: the folder of
    captured traces (default `data`).

        study = varve.reproduce("nolog", quick=True)
        study.df()[["figure", "what", "paper", "here", "verdict"]]
        study.tables["fig6"].df()
    """
    if paper not in _PAPERS:
        raise ValueError(f"paper {paper!r}: expected one of {', '.join(_PAPERS)}")
    words: list[object] = ["reproduce", paper, "--json"]
    words += ["--quick"] if quick else []
    words += ["--full"] if full else []
    for name, value in (("--data", data), ("--seeds", seeds), ("--threads", threads)):
        words += [] if value is None else [name, value]
    return Study(document(words))


@dataclass(frozen=True)
class Proof:
    """What a search came to."""

    cuts: int
    violations: int
    digest: str
    # Plans of broken promises, one of each kind, by the names of their files: what `varve replay` takes.
    plans: dict[str, str]
    # The document of `varve prove --seeds A..B --json`.
    document: dict[str, Any] = field(repr=False)


def prove(
    seeds: "tuple[int, int] | range",
    what: str = "drives",
    *,
    stack: str | None = None,
    long: bool = False,
    faults: bool | None = None,
    threads: int | None = None,
    out: "str | os.PathLike[str] | None" = None,
) -> Proof:
    """Searches for a broken promise: cuts the power everywhere in the drawn runs of these seeds, by the program.

    seeds: first and last, or a range; what: drives, tx, remap, paper or lfs; stack: a whole stack in one text instead;
    long: longer runs, operations sampled; faults: of the medium in every run, or in none; out: a folder for the document
    and for plans of broken promises.

        varve.prove((1, 100), "tx").violations
    """
    kinds = {"drives": [], "tx": ["--tx"], "remap": ["--remap"], "paper": ["--remap", "--paper"], "lfs": ["--lfs"]}
    if what not in kinds:
        raise ValueError(f"what {what!r}: expected one of {', '.join(kinds)}")
    if isinstance(seeds, range):
        if len(seeds) == 0 or seeds.step != 1:
            raise ValueError(f"seeds {seeds!r}: expected one after the other, at least one")
        seeds = (seeds[0], seeds[-1])
    words: list[object] = ["prove", *kinds[what], "--seeds", f"{seeds[0]}..{seeds[1]}", "--json"]
    words += ["--stack", stack] if stack is not None else []
    words += ["--long"] if long else []
    words += [] if faults is None else ["--faulty" if faults else "--healthy"]
    words += [] if threads is None else ["--threads", threads]
    with tempfile.TemporaryDirectory() as folder:
        where = Path(out or folder)
        before = set(where.glob("*.toml"))
        found = document([*words, "--out", where], passes=(0, 1))
        plans = {path.name: path.read_text() for path in sorted(where.glob("*.toml")) if path not in before}
    return Proof(found["tally"]["cuts"], found["violations"], found["digest"], plans, found)

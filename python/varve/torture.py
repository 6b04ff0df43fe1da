"""Power cuts in tests: `varve torture` as a function, and as a fixture of pytest.

    # PYTHONPATH=python pytest -p varve.torture
    def test_my_database(varve_torture):
        varve_torture(["./program"], check="./check.sh")

A promise that is not kept fails the test with the report; so does a run without a verdict (nothing promised, a checker
that looks at nothing). Where the machine has no /dev/fuse, or not what another file system than `lfs` needs, the test is
skipped with the reason.
"""

import dataclasses
from varve._program import NotHere, document

try:
    import pytest
except ImportError:  # the function needs none
    pytest = None


class NotKept(AssertionError):
    """A promise is lost, or there is no verdict."""


@dataclasses.dataclass
class Result:
    """What came out: the verdict, and the document of `varve torture --json` (docs/torture.md)."""

    verdict: str
    document: dict

    @property
    def failures(self):
        """The states in which a promise is not kept."""
        return self.document["results"]["failures"]

    def report(self):
        """In a few lines, for people."""
        results = self.document["results"]
        lines = [f"varve torture: {self.verdict}"]
        if results["why"]:
            lines.append(results["why"])
        for kind in ("worst", "drawn"):
            lines.append(f"{kind}: {results[kind]['failed']} of {results[kind]['looked_at']} states failed")
        for failure in self.failures[:3]:
            lines.append(f"before record {failure['cut']} (left: {failure['left']}): {failure['reason']}")
        blame = results["blame"] or {}
        if blame.get("missing_fsync"):
            lines.append(f"an fsync of {blame['missing_fsync']} is missing (a guess)")
        lines += [f"again: varve replay {plan}" for plan in results["plans"]]
        return "\n".join(lines)


def run(program, check=None, *, fs="lfs", random=50, options=(), out=None, cwd=None, env=None):
    """Runs a crash test and says what came out.

    program: its words; check: a line for `sh -c`; options: more words for `varve torture`; out: a folder for plans. The
    program `varve` is looked for in the variable VARVE, then on the PATH.
    """
    words = ["torture", "--json", "--fs", fs, "--random", random]
    words += ["--out", str(out)] if out else []
    words += ["--check", check] if check else []
    # Kept, no verdict, lost: each is an answer.
    found = document([*words, *options, "--", *program], passes=(0, 1, 4), cwd=cwd, env=env)
    return Result(found["results"]["verdict"], found)


def kept(*args, **more):
    """As `run`; raises NotKept with the report unless every promise is kept."""
    result = run(*args, **more)
    if result.verdict != "kept":
        raise NotKept(result.report())
    return result


if pytest:

    @pytest.fixture
    def varve_torture(tmp_path):
        """`kept`, with plans in a folder of this test; skips where the machine does not allow it."""

        def torture(*args, **more):
            more.setdefault("out", tmp_path / "torture")
            try:
                return kept(*args, **more)
            except NotHere as why:
                pytest.skip(str(why))

        return torture

"""What can go wrong beside what the user gave (ValueError) and files (OSError)."""

from typing import TYPE_CHECKING

from varve._varve import CheckError, InternalError, PolicyError, RunError

if TYPE_CHECKING:
    from varve._compare import Comparison
    from varve._results import Results

__all__ = ["CheckError", "InternalError", "PolicyError", "RunError", "ToleranceError", "UnwrittenError"]


class ToleranceError(RuntimeError):
    """What was compared differs by more than it may; `comparison` has all of it."""

    def __init__(self, text: str, comparison: "Comparison") -> None:
        super().__init__(text)
        self.comparison = comparison


class UnwrittenError(RuntimeError):
    """A file beside the results of a run could not be written; `results` has all that the run measured."""

    def __init__(self, text: str, results: "Results") -> None:
        super().__init__(text)
        self.results = results

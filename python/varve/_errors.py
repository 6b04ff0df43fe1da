"""What can go wrong beside what the user gave (ValueError) and files (OSError)."""

from typing import TYPE_CHECKING

from varve._varve import CheckError, InternalError, PolicyError, RunError

if TYPE_CHECKING:
    from varve._compare import Comparison

__all__ = ["CheckError", "InternalError", "PolicyError", "RunError", "ToleranceError"]


class ToleranceError(RuntimeError):
    """What was compared differs by more than it may; `comparison` has all of it."""

    def __init__(self, text: str, comparison: "Comparison") -> None:
        super().__init__(text)
        self.comparison = comparison

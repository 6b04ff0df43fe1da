"""What can go wrong beside what the user gave (ValueError) and files (OSError)."""

from varve._varve import CheckError, InternalError, PolicyError, RunError

__all__ = ["CheckError", "InternalError", "PolicyError", "RunError"]

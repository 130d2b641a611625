"""Why a program has no derivative."""

from __future__ import annotations


class NoDerivative(Exception):
    """Reverse mode has no rule for an op: why, and the user's line."""

    def __init__(self, reason: str, line: int = 0):
        super().__init__(f"line {line}: {reason}" if line else reason)
        self.reason, self.line = reason, line

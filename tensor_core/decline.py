"""The one way out of capture: this cannot be done exactly."""


class Decline(Exception):
    """This cannot be captured exactly. The graph ends here, NumPy runs the instruction, capture resumes after it.

    `reason` says what, `hint` what the user may do instead. Not an error: nobody but the tracer sees it.
    """

    misuse: type[Exception] | None = None  # of a transform: TypeError or ValueError, as whom it is called by is told

    def __init__(self, reason: str, hint: str = ""):
        super().__init__(reason)
        self.reason, self.hint = reason, hint


class WrongType(Decline):
    """A transform is given what it cannot take, or a function that returns what it cannot take."""

    misuse = TypeError


class WrongValue(Decline):
    """Positions or sizes that a transform is given do not fit."""

    misuse = ValueError


class DataDecides(Decline):
    """Data decides how large a result is, where sizes must be known, or of which dtype. NumPy's own code would meet the same."""

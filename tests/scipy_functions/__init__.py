"""SciPy's functions, compiled: `SAMPLES` are all of them, by their full names."""

from tests.scipy_functions import distances, functions, linalg, signals, statistics, windows  # noqa: F401  (they fill the table)
from tests.scipy_functions.corpus import SAMPLES

__all__ = ["SAMPLES"]

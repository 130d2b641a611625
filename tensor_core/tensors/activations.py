"""Functions of neural networks, written with NumPy's: they work on arrays and Tensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def softmax(x: Any, axis: Any = -1) -> Any:
    """exp(x) / sum(exp(x)) along `axis` (an int, a tuple of them, or None for all), without overflow."""
    powers = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return powers / np.sum(powers, axis=axis, keepdims=True)


def relu(x: Any) -> Any:
    """x where it is positive, else 0; NaN stays. The derivative at 0 is 0."""
    return np.where(x <= 0, np.zeros_like(x), x)


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x)), without overflow and accurate for all x."""
    above = np.exp(np.minimum(x, 0))
    return above / (above + np.exp(-np.maximum(x, 0)))


def gelu(x: Any) -> Any:
    """x times the normal distribution function, by its tanh approximation (at most 5e-4 from it)."""
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))))

"""Discrete Fourier transforms along one axis, by NumPy's pocketfft.

`n` is the length of the transform, and of its result (of rfft: n // 2 + 1 of it): the input is cut or padded with zeros.
`norm` is "backward", "ortho" or "forward". A float32 or complex64 input gives a 32-bit result. Every transform is linear,
so its derivative is a transform of the same kind; gradients are of complex arguments as `transforms/reverse.py` says.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from npcompile.tensor_core.array import full
from npcompile.tensor_core.dim import Size, same
from npcompile.tensor_core.meta import TensorMeta
from npcompile.tensor_core.op import row

SWAPPED = {"backward": "forward", "ortho": "ortho", "forward": "backward"}
Value = Any  # tensor_core.transforms.value.Value


def eager(transform: Callable) -> Callable:
    return lambda x, *, n, axis, norm: transform(x, n, axis, norm)


def transformed(x: TensorMeta, n: Size, axis: int, kind: str) -> TensorMeta:
    assert x.dtype.char in "fdFD" and 0 <= axis < x.ndim
    parts = "f" if x.dtype.char in "fF" else "d"
    return TensorMeta((*x.shape[:axis], n, *x.shape[axis + 1 :]), np.dtype(parts.upper() if kind == "c" else parts))


def fitted(x: Value, n: Size, axis: int) -> Value:
    """x cut, or padded with zeros, to length n along an axis."""
    here = x.shape[axis]
    if same(here, n):
        return x
    if here > n:
        return x.op("slice", start=(0,) * x.ndim, step=(1,) * x.ndim, shape=(*x.shape[:axis], n, *x.shape[axis + 1 :]))
    rest = full(x.builder, (*x.shape[:axis], n - here, *x.shape[axis + 1 :]), 0, x.dtype)
    return x.of(x.builder.apply("concatenate", x.node, rest, axis=axis))


def by(name: str) -> Callable:
    """The rule of fft and ifft, which are their own transposes, and of rfft, a part of fft."""

    def vjp(g: Value, out: Value, x: Value, *, n, axis, norm) -> Value:
        return fitted(g.op(name, n=n, axis=axis, norm=norm), x.shape[axis], axis).cast(x.dtype)

    return vjp


def vjp_irfft(g: Value, out: Value, x: Value, *, n, axis, norm) -> Value:
    """All frequencies but 0 and n / 2 stand for themselves and for their conjugates."""
    spectrum = g.op("rfft", n=n, axis=axis, norm=SWAPPED[norm]).conjugate()
    frequency = spectrum.of(spectrum.builder.apply("index", shape=spectrum.shape, axis=axis))
    is_single = frequency.equals(0) | (frequency * 2).equals(n)
    return fitted(is_single.where(spectrum, spectrum * 2), x.shape[axis], axis).cast(x.dtype)


@row("extern", eager=eager(np.fft.fft), vjp=by("fft"), numpy=np.fft.fft, stacks=True)
def fft(x: TensorMeta, *, n, axis, norm):
    return transformed(x, n, axis, "c")


@row("extern", eager=eager(np.fft.ifft), vjp=by("ifft"), numpy=np.fft.ifft, stacks=True)
def ifft(x: TensorMeta, *, n, axis, norm):
    return transformed(x, n, axis, "c")


@row("extern", eager=eager(np.fft.rfft), vjp=by("fft"), numpy=np.fft.rfft, stacks=True)
def rfft(x: TensorMeta, *, n, axis, norm):
    """The frequencies 0 to n / 2 of a real input."""
    assert x.dtype.kind == "f"
    return transformed(x, n // 2 + 1, axis, "c")


@row("extern", eager=eager(np.fft.irfft), vjp=vjp_irfft, numpy=np.fft.irfft, stacks=True)
def irfft(x: TensorMeta, *, n, axis, norm):
    """The inverse of rfft. Imaginary parts of the frequencies 0 and n / 2 do not count; a real input has none."""
    return transformed(x, n, axis, "f")

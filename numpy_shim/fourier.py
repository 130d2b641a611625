"""numpy.fft: the one function through which all of its transforms go. The others are captured from NumPy's source."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.fft import _pocketfft

from npcompile.numpy_shim.arguments import axis_of, copied_meta, flag, integer, write_out
from npcompile.numpy_shim.registry import implements
from npcompile.tensor_core.array import Array, cast, fresh
from npcompile.tensor_core.graph import Builder
from npcompile.tensor_core.meta import Decline

# (real, forward) -> op
TRANSFORMS = {(False, True): "fft", (False, False): "ifft", (True, True): "rfft", (True, False): "irfft"}


@implements(_pocketfft._raw_fft)
def transform(builder: Builder, a: Any, n: Any, axis: Any, is_real: Any, is_forward: Any, norm: Any, out: Any = None) -> Array:
    """A transform of length n along an axis. float16 computes its factor in 16 bits, and runs as NumPy."""
    length = integer(n)
    if length < 1:
        raise Decline(f"Invalid number of FFT data points ({length}) specified.")
    if norm not in (None, "backward", "ortho", "forward"):
        raise Decline(f"Invalid norm value {norm}")
    if not isinstance(a, Array) or a.dtype.char in "eg":
        raise Decline("a transform of what is not an array of 32-bit or 64-bit numbers")
    op = TRANSFORMS[flag(is_real), flag(is_forward)]
    if op == "rfft" and a.dtype.kind == "c":
        raise Decline("rfft of complex numbers")
    source = a.dtype if a.dtype.kind in "fc" else np.dtype(float)
    place = axis_of(axis, a.ndim)
    node = builder.apply(op, cast(builder, a.node, source), n=length, axis=place, norm=norm or "backward")
    result = fresh(builder, node, copied_meta(a.meta, "K", node.meta.dtype, node.meta.shape))
    if isinstance(out, Array) and out.dtype != result.dtype and a.dtype == np.float32:
        raise Decline("real numbers of 32 bits, which NumPy transforms in the precision of the output")
    return result if out is None else write_out(out, result)

"""CuPy's arrays as programs meet them. CuPy is not imported for this."""

from __future__ import annotations

from typing import Any

from npcompile.backends.device_arrays import ArrayKind


def cupys_arrays(cupy: Any) -> ArrayKind:
    kind = cupy.ndarray
    return ArrayKind(
        kind,
        "cuda",
        lambda x: x.data.device_id,
        "{}.data.device_id",
        # The attribute behind flags.c_contiguous, which makes an object of all flags first.
        "{}._c_contiguous" if hasattr(kind, "_c_contiguous") else "{}.flags.c_contiguous",
        lambda x: x.data.ptr,
        lambda x, offset, shape, dtype, strides: cupy.ndarray(shape, dtype, x.data + offset, strides=strides),
    )

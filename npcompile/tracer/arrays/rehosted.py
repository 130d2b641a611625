"""Functions of npcompile.numpy_shim in captured programs: NumPy's, whose arrays are Tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from npcompile.numpy_shim.eager.functions import Builtin, Ufunc, rehosted_function
from npcompile.numpy_shim.eager.names import SHIM
from npcompile.tensor_core.meta import Decline
from npcompile.tracer.frame import Frame
from npcompile.tracer.python import calls
from npcompile.tracer.python.calls import Arguments, Keywords
from npcompile.tracer.tensor_values import as_tensor
from npcompile.tracer.values import Constant


def call_native(frame: Frame, native: Any, positional: Arguments, keywords: Keywords) -> Any:
    if "out" in keywords or "device" in keywords:
        raise Decline(f"np.{native.__name__} of npcompile.numpy_shim with out= or device=")
    return as_tensor(frame.capture, calls.call(frame, Constant(native), positional, keywords))


def call_rehosted(frame: Frame, function: Any, positional: Arguments, keywords: Keywords) -> Any:
    return call_native(frame, function.__wrapped__, positional, keywords)


def call_builtin(frame: Frame, function: Builtin, positional: Arguments, keywords: Keywords) -> Any:
    return call_rehosted(frame, function.__wrapped__, positional, keywords)


def call_ufunc(frame: Frame, function: Ufunc, positional: Arguments, keywords: Keywords) -> Any:
    ufunc = function.__wrapped__
    if len(positional) > ufunc.nin:
        raise Decline(f"np.{ufunc.__name__} of npcompile.numpy_shim with an array for its result")
    return call_native(frame, ufunc, positional, keywords)


def register() -> None:
    """Say what calls of the namespace's functions are. Every rehosted function has one code."""
    calls.CALLED_BY_CODE[rehosted_function(np.sum, "sum", SHIM).__code__] = call_rehosted  # type: ignore[attr-defined]
    calls.STANDS_FOR_NUMPY.update({Builtin: call_builtin, Ufunc: call_ufunc})

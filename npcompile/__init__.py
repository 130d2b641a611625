"""npcompile: unmodified NumPy programs, captured, fused and run in parallel.

>>> import numpy as np, npcompile as npc
>>> @npc.compile
... def f(x, y):
...     return np.sin(x) * np.exp(-y * y) + np.tanh(x * y)
"""

from npcompile.backends import cpu, eager  # noqa: F401  (registers the backends)
from npcompile.backends.registry import list_backends, register_backend
from npcompile.compiler import compile, disable, graph_break, reset, run_only
from npcompile.explain import Explanation, compile_times, explain
from npcompile.logs import set_logs, set_logs_from_environment
from npcompile.tracer.point import GraphBreakError
from npcompile.transforms import grad, hessian, jacobian, jvp, value_and_grad, vmap

__version__ = "0.1.0"

__all__ = [
    "Explanation",
    "GraphBreakError",
    "compile",
    "compile_times",
    "disable",
    "explain",
    "grad",
    "graph_break",
    "hessian",
    "jacobian",
    "jvp",
    "list_backends",
    "register_backend",
    "reset",
    "run_only",
    "set_logs",
    "value_and_grad",
    "vmap",
]

set_logs_from_environment()

"""npcompile: unmodified NumPy programs, captured, fused and run in parallel.

>>> import numpy as np, npcompile as npc
>>> @npc.compile
... def f(x, y):
...     return np.sin(x) * np.exp(-y * y) + np.tanh(x * y)
"""

from npcompile.backends import own
from npcompile.backends.cpu.threads import OWN_SETTING, read_setting
from npcompile.backends.registry import list_backends, register_backend
from npcompile.callbacks import CFunction, cfunc
from npcompile.checking import CheckFailed
from npcompile.compiler import allow_in_graph, compile, disable, disallow_in_graph, graph_break, reset, run_only
from npcompile.control import cond, fori_loop, scan, while_loop
from npcompile.counting import counters
from npcompile.debug_folders import FOLDERS
from npcompile.devices import device
from npcompile.explain import compile_times, explain
from npcompile.explanation import Explanation
from npcompile.exported import Exported, ExportError, load_exported
from npcompile.exporting import export
from npcompile.generalized import GeneralVectorized, guvectorize
from npcompile.host_calls import callback, debug_print
from npcompile.logs import set_logs, set_logs_from_environment
from npcompile.lowering import Compiled, Lowered, MemoryAnalysis, lower
from npcompile.marks import mark_dynamic, mark_static
from npcompile.minifying import minify
from npcompile.packages import CompiledPackage, compile_package
from npcompile.profiling import Profile, profile
from npcompile.settings import config
from npcompile.switch import disabled, set_stance
from npcompile.tensors import (
    Tensor,
    arange,
    asarray,
    empty,
    empty_like,
    enable_grad,
    eye,
    from_dlpack,
    from_numpy,
    full,
    full_like,
    gelu,
    gradients_of,
    is_grad_enabled,
    linspace,
    no_grad,
    ones,
    ones_like,
    rand,
    rand_like,
    randint,
    randn,
    randn_like,
    relu,
    sigmoid,
    softmax,
    tensor,
    zeros,
    zeros_like,
)
from npcompile.tracer.variant import GraphBreakError
from npcompile.transforms import checkpoint, custom_gradient, grad, hessian, jacobian, jvp, value_and_grad, vjp, vmap
from npcompile.trees import register_tree_node
from npcompile.vectorized import Vectorized, vectorize
from npcompile.wrapped import wrap_numpy

__version__ = "0.1.0"

__all__ = [
    "CFunction",
    "CheckFailed",
    "Compiled",
    "CompiledPackage",
    "Explanation",
    "ExportError",
    "Exported",
    "GeneralVectorized",
    "GraphBreakError",
    "Lowered",
    "MemoryAnalysis",
    "Profile",
    "Tensor",
    "Vectorized",
    "allow_in_graph",
    "arange",
    "asarray",
    "callback",
    "cfunc",
    "checkpoint",
    "compile",
    "compile_package",
    "compile_times",
    "cond",
    "config",
    "counters",
    "custom_gradient",
    "debug_print",
    "device",
    "disable",
    "disabled",
    "disallow_in_graph",
    "empty",
    "empty_like",
    "enable_grad",
    "explain",
    "export",
    "eye",
    "fori_loop",
    "from_dlpack",
    "from_numpy",
    "full",
    "full_like",
    "gelu",
    "grad",
    "gradients_of",
    "graph_break",
    "guvectorize",
    "hessian",
    "is_grad_enabled",
    "jacobian",
    "jvp",
    "linspace",
    "list_backends",
    "load_exported",
    "lower",
    "mark_dynamic",
    "mark_static",
    "minify",
    "no_grad",
    "ones",
    "ones_like",
    "profile",
    "rand",
    "rand_like",
    "randint",
    "randn",
    "randn_like",
    "register_backend",
    "register_tree_node",
    "relu",
    "reset",
    "run_only",
    "scan",
    "set_logs",
    "set_stance",
    "sigmoid",
    "softmax",
    "tensor",
    "value_and_grad",
    "vectorize",
    "vjp",
    "vmap",
    "while_loop",
    "wrap_numpy",
    "zeros",
    "zeros_like",
]

own.register()
read_setting(OWN_SETTING)  # a wrong number of threads is an error here, not in the first call of a compiled function
set_logs_from_environment()
FOLDERS.update()  # as the environment says

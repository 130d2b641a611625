"""Eager Tensors compute with the captured forms of NumPy's surface."""

import sys

from npcompile.numpy_shim import indexing, operators, other_ufuncs, ufunc_methods
from npcompile.numpy_shim.registry import ATTRIBUTES, FUNCTIONS, METHODS
from npcompile.tensor_core.tensors.dispatch import SURFACE

SURFACE.functions = FUNCTIONS
SURFACE.methods = METHODS
SURFACE.attributes = ATTRIBUTES
SURFACE.ufunc_methods = ufunc_methods.UFUNC_METHODS
SURFACE.other_ufunc = other_ufuncs.form_of
SURFACE.operators = operators.BINARY | operators.INPLACE | operators.COMPARE
SURFACE.operators |= {f"{symbol}x": captured for symbol, captured in operators.UNARY.items()}
SURFACE.operators |= {"getitem": indexing.getitem, "setitem": indexing.setitem}
SURFACE.namespace = sys.modules[__package__]

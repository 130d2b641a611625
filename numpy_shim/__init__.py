"""NumPy's surface: on traced arrays, which call becomes which ops; and as a namespace whose arrays are Tensors.

Importing this package fills the registry of captured forms. Used as `import npcompile.numpy_shim as np` it is a NumPy over
Tensors: every public name of numpy, made when it is first asked for.
"""

import importlib as _importlib
import pkgutil as _pkgutil

import numpy as _numpy

from npcompile.numpy_shim.eager.names import PARTS as _PARTS
from npcompile.numpy_shim.eager.names import lookup as _lookup

__getattr__, __dir__ = _lookup(globals(), "")

# Every module here registers what it captures. One named like a function of NumPy leaves the name to that.
for _module in _pkgutil.iter_modules(__path__):
    _importlib.import_module(f"{__name__}.{_module.name}")
    if hasattr(_numpy, _module.name) and _module.name not in _PARTS:
        del globals()[_module.name]

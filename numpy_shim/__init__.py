"""NumPy's surface: on traced arrays, which call becomes which ops; and as a namespace whose arrays are Tensors.

Importing this package fills the registry of captured forms. Used as `import npcompile.numpy_shim as np` it is a NumPy over
Tensors: every public name of numpy, made when it is first asked for.
"""

import importlib
import pkgutil

from npcompile.numpy_shim.eager.names import lookup

__getattr__, __dir__ = lookup(globals(), "")

# Every module here registers what it captures.
for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

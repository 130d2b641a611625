"""NumPy's surface on traced arrays: which call becomes which ops. Importing this package fills the registry."""

import importlib
import pkgutil

# Every module here registers what it captures.
for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

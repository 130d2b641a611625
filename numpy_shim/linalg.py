"""numpy.linalg, whose arrays are Tensors."""

from npcompile.numpy_shim.eager.names import lookup

__getattr__, __dir__ = lookup(globals(), "linalg")

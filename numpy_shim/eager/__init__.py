"""`import npcompile.numpy_shim as np`: every public name of NumPy, whose arrays are Tensors."""

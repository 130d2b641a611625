"""Python loops over the elements of a device's arrays: npcompile, NumPy on the host, and kernels written by hand."""

"""What is captured beside NumPy's functions: Tensors, gradients, transforms, control flow, random numbers."""

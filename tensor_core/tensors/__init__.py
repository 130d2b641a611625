"""What eager Tensors are made of: views of real memory, calls of NumPy's surface, backward."""

"""From a graph to kernels: loops over buffers, the same for every backend that prints them."""

"""What runs Triton programs: the device, its memory, compile workers, launches, CUDA graphs."""

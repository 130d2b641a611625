"""Loop IR on a device: the CUDA C++ target, and NVRTC, which compiles it also where there is no device."""

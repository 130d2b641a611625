"""The CUDA backend: generated Triton kernels, launched through CuPy. Neither is imported before a graph is compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache as once
from typing import Any

from npcompile.backends.cuda.cupy_arrays import cupys_arrays
from npcompile.backends.device_arrays import LIBRARIES, array_kind
from npcompile.backends.loop_ir.native import DeviceProgram
from npcompile.backends.registry import Abilities, CompiledGraph, register_backend
from npcompile.tensor_core.garbage import without_collections
from npcompile.tensor_core.graph import Graph
from npcompile.tensor_core.loop_ir.ops import Program
from npcompile.tensor_core.tensors import devices


@once
def prepare() -> None:
    """Import all of this backend, without the searches for garbage that so many new objects would start."""
    with without_collections():
        from npcompile.backends.cuda import backend, tensors  # noqa: F401  (here: most programs never need them)


def compile_cuda(graph: Graph, example_inputs: Sequence[Any] = (), mode: str = "default") -> CompiledGraph:
    """Compile `graph` for the current CUDA device: see `backend.compile_cuda`. Raises NoDevice."""
    prepare()
    from npcompile.backends.cuda import backend

    return backend.compile_cuda(graph, example_inputs, mode)


def compile_on(graph: Graph, number: int, mode: str = "default") -> CompiledGraph:
    """Compile `graph` for arrays on the CUDA device of this number: see `backend.compile_on`. Raises NoDevice."""
    prepare()
    from npcompile.backends.cuda import backend

    open_arrays()  # the program may give Tensors
    return backend.compile_on(graph, number, mode)


def compile_named(graph: Graph, name: str, mode: str = "default") -> CompiledGraph:
    """Compile `graph` for the device "cuda", the current one, or "cuda:1". Raises NoDevice."""
    prepare()
    from npcompile.backends.cuda import backend
    from npcompile.backends.cuda.runtime import device

    return backend.compile_for(graph, device.named_device(name), mode=mode)


def copying(call: Callable[..., Any], graph: Graph, number: int) -> Callable[..., Any]:
    """What another backend compiled, for arrays on the CUDA device of this number: see `backend.copying`."""
    from npcompile.backends.cuda import backend
    from npcompile.backends.cuda.runtime import device

    open_arrays()
    return backend.copying(call, graph, device.numbered_device(number))


def require_device(name: str = "cuda") -> None:
    """Raises NoDevice, a RuntimeError that says what is missing, where the CUDA device cannot be used.

    `name` is "cuda", the current device, or "cuda:1"; ValueError for another name.
    """
    from npcompile.backends.cuda.runtime import device

    device.named_device(name)


def open_arrays() -> devices.DeviceArrays:
    """What Tensors need of CUDA devices. Raises NoDevice."""
    prepare()
    from npcompile.backends.cuda import tensors

    return tensors.open_arrays()


def compile_loop(program: Program, example: Any) -> DeviceProgram:
    """A program of loops in blocks that aborts, for arrays of the kind and the device of an example. Raises Unsupported."""
    prepare()
    from npcompile.backends.cuda.loop_ir import kernel
    from npcompile.backends.cuda.runtime import device

    kind = array_kind(type(example))
    assert kind is not None, example
    return kernel.compile_loop(program, device.numbered_device(kind.number(example)), kind)


class CudaDevices:
    """See `registry.Devices`."""

    require = staticmethod(require_device)
    compile = staticmethod(compile_cuda)
    compile_named = staticmethod(compile_named)
    compile_on = staticmethod(compile_on)
    copying = staticmethod(copying)
    compile_loop = staticmethod(compile_loop)

    @staticmethod
    def numbered(number: int) -> Any:
        from npcompile.backends.cuda.runtime import device

        return device.numbered_device(number)


def register() -> None:
    """The backend, its devices, and the arrays that are on these."""
    register_backend("cuda", compile_cuda, Abilities(is_own=True, is_bitwise=False, devices=CudaDevices()))
    devices.OPENERS["cuda"] = open_arrays
    devices.INTERFACES["__cuda_array_interface__"] = "cuda"
    devices.DLPACK_NAMES |= {2: "cuda", 13: "cuda"}  # DLDeviceType: memory of a CUDA device, and memory that CUDA manages
    LIBRARIES["cupy"] = cupys_arrays

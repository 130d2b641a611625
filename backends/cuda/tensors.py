"""Tensors on CUDA devices: the op table's rows as programs of one node, compiled when first met and kept.

Sizes are symbols of such a program, so that one serves arrays of all sizes; what else is compiled in is the order of axes in
memory, the axes of size 0 and 1, those that repeat, and which sizes are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from npcompile.backends import device_arrays as arrays
from npcompile.backends.cuda import backend
from npcompile.backends.cuda.runtime import device as cuda
from npcompile.tensor_core.array import cast
from npcompile.tensor_core.dim import Size
from npcompile.tensor_core.dtypes import dtype_of_char
from npcompile.tensor_core.graph import Builder
from npcompile.tensor_core.keys import freeze
from npcompile.tensor_core.meta import TensorMeta, TupleMeta, broadcast_strides, keep_order_strides, packed_strides
from npcompile.tensor_core.op import OPS
from npcompile.tensor_core.tensors.devices import KINDS, DeviceArrays

Shape = Any  # tuple[int, ...]; the protocol says Shape, whose sizes may be symbols: arrays have none
MOST_CALLS = 4096  # layouts of operands that are remembered; programs are few and all kept


def open_arrays() -> DeviceArrays:
    """Arrays of CUDA devices, for Tensors. Raises NoDevice, which names what is missing."""
    kind = type(cuda.current_device().zeros(1, np.dtype(np.uint8)))
    if kind not in KINDS:
        KINDS[kind] = CudaArrays(kind)
    return KINDS[kind]


def axis_order(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """Axes from the outermost in memory to the innermost."""
    return tuple(sorted(range(len(shape)), key=lambda a: -abs(strides[a])))


def is_dense(shape: Shape, strides: Shape, itemsize: int) -> bool:
    packed = packed_strides(shape, itemsize, axis_order(shape, strides))
    return 0 in shape or all(n == 1 or a == b for n, a, b in zip(shape, strides, packed))


@dataclass(frozen=True, slots=True)
class Operand:
    """What a program knows of an operand. Two of equal fields are the same to it."""

    char: str  # of the dtype
    sizes: tuple[int, ...]  # -1, -2, ...: a symbol, equal numbers for equal sizes; 0 and 1 are themselves
    order: tuple[int, ...]  # axes from the outermost
    shape: tuple[int, ...]  # sizes that it is repeated to before the op sees it; as `sizes`
    is_number: bool  # of no dimensions, by value from the host


@dataclass(frozen=True, slots=True)
class Call:
    """An op on operands of given layouts: how they are brought into the program's form, and what runs."""

    prepare: tuple[Callable[[Any], Any] | None, ...] | None  # None: they have that form
    program: Callable[..., tuple[Any, ...]]
    sizes: tuple[int, ...]  # the values of its symbols
    is_tuple: bool

    def __call__(self, values: Sequence[Any]) -> Any:
        if self.prepare is not None:
            values = [v if made is None else made(v) for made, v in zip(self.prepare, values)]
        results = self.program(*values, *self.sizes)
        return results if self.is_tuple else results[0]


@dataclass(frozen=True, slots=True)
class Program:
    call: Callable[..., tuple[Any, ...]]
    symbols: tuple[int, ...]  # which sizes it takes
    is_tuple: bool


@dataclass(eq=False, slots=True)
class CudaArrays:
    """See tensor_core.tensors.devices.DeviceArrays. Copies and kernels are in the order of CuPy's current stream."""

    type: type
    calls: dict[tuple, Call] = field(default_factory=dict)
    programs: dict[tuple, Program | None] = field(default_factory=dict)  # None: sizes have to be constants

    @property
    def kind(self) -> arrays.ArrayKind:
        kind = arrays.array_kind(self.type)
        assert kind is not None, self.type
        return kind

    def on(self, array: Any) -> Any:
        """The device that has an array."""
        return cuda.numbered_device(self.kind.number(array))

    # --- places

    def device_of(self, array: Any) -> str:
        return device_name(self.kind.number(array))

    def normalize(self, device: str) -> str:
        return device_name(cuda.named_device(device).number)

    def upload(self, host: np.ndarray, device: str) -> Any:
        target, order = cuda.named_device(device), axis_order(host.shape, host.strides)
        dense = np.ascontiguousarray(host.transpose(order)).reshape([host.shape[a] for a in order])
        with target.use():
            return target.upload(dense.transpose(np.argsort(order)))

    def download(self, array: Any) -> np.ndarray:
        device, order = self.on(array), axis_order(array.shape, array.strides)
        out = np.empty([array.shape[a] for a in order], array.dtype).transpose(np.argsort(order))
        with device.use():
            device.download(self.dense(array), out)
        return out

    def move(self, array: Any, device: str) -> Any:
        return cuda.copy_to(array, cuda.named_device(device))

    # --- memory

    def full(self, shape: Shape, dtype: np.dtype, strides: Shape, value: Any, device: str) -> Any:
        target = cuda.named_device(device)
        with target.use():
            made = target.empty(shape, dtype, strides)
            made[...] = value
        return made

    def dense(self, array: Any) -> Any:
        return array if is_dense(array.shape, array.strides, array.itemsize) else self.copy(array, array.strides)

    def copy(self, array: Any, strides: Shape) -> Any:
        device, order = self.on(array), axis_order(array.shape, strides)
        with device.use():
            made = device.empty(array.shape, array.dtype, packed_strides(array.shape, array.itemsize, order))
            made[...] = array
        return made

    def assign(self, target: Any, value: Any) -> None:
        with self.on(target).use():
            if not isinstance(value, self.type):
                value = value[()]
            elif self.shares_memory(target, value):
                value = self.copy(value, value.strides)  # type: ignore[attr-defined]
            target[...] = value

    def strided(self, array: Any, shape: Shape, strides: Shape, offset: int = 0, dtype: np.dtype | None = None) -> Any:
        return self.kind.view(array, offset, shape, array.dtype if dtype is None else dtype, strides)

    def shares_memory(self, a: Any, b: Any) -> bool:
        kind = self.kind
        (first, end), (other, other_end) = arrays.bounds(a, kind), arrays.bounds(b, kind)
        return kind.number(a) == kind.number(b) and first < other_end and other < end

    # --- other libraries

    def from_dlpack(self, x: Any) -> Any:
        return cuda.current_device().library.from_dlpack(x)

    def from_interface(self, x: Any) -> Any:
        return cuda.current_device().library.asarray(x)

    # --- computing

    def evaluate(self, op: str, values: Sequence[Any], params: dict[str, Any], dtypes: Sequence[np.dtype] = ()) -> Any:
        layouts = tuple([(v.dtype.char, v.shape, v.strides, type(v) is self.type) for v in values])
        number = next(self.kind.number(v) for v in values if type(v) is self.type)
        key = (op, number, freeze(params) if params else None, dtypes, layouts)
        call = self.calls.get(key)
        if call is None:
            if len(self.calls) >= MOST_CALLS:
                self.calls.clear()
            call = self.calls[key] = self.call_for(op, number, values, params, key[2], dtypes)
        return call(values)

    def grid(self, shape: Shape, axis: int, device: str) -> Any:
        number, sizes = cuda.named_device(device).number, [n for n in shape if n > 1]
        is_symbol = tuple([n > 1 for n in shape])
        key = ("index", number, axis, is_symbol, tuple([n for n in shape if n < 2]))
        if key not in self.programs:
            self.programs[key] = compile_grid(number, shape, axis)
        program = self.programs[key]
        assert program is not None
        return program.call(*[sizes[k] for k in program.symbols])[0]

    def call_for(
        self, op: str, number: int, values: Sequence[Any], params: dict[str, Any], frozen: Any, dtypes: Sequence[np.dtype]
    ) -> Call:
        sizes: list[int] = []
        whole = np.broadcast_shapes(*(v.shape for v in values)) if OPS[op].kind == "elementwise" else None
        forms = [self.operand(v, sizes, number, whole) for v in values]
        operands, prepare = tuple(o for o, _ in forms), tuple(made for _, made in forms)
        order = result_order(op, values, params, whole)
        key = (op, number, frozen, operands, order, dtypes)
        if key not in self.programs:
            self.programs[key] = compile_op(op, number, operands, params, order, dtypes, sizes, is_static=False)
        program = self.programs[key]
        if program is None:
            fixed = (*key, tuple(sizes))
            if fixed not in self.programs:
                self.programs[fixed] = compile_op(op, number, operands, params, order, dtypes, sizes, is_static=True)
            program = self.programs[fixed]
        assert program is not None
        ready = None if all(made is None for made in prepare) else prepare
        return Call(ready, program.call, tuple(sizes[s] for s in program.symbols), program.is_tuple)

    def operand(
        self, value: Any, sizes: list[int], number: int, whole: Shape | None
    ) -> tuple[Operand, Callable[[Any], Any] | None]:
        """The program's form of an operand, and what brings it there. New sizes are added to `sizes`.

        What is smaller than `whole`, the shape that an elementwise op has, is repeated by the program.
        """

        def named(shape: Shape) -> tuple[int, ...]:
            for n in shape:
                if n > 1 and n not in sizes:
                    sizes.append(n)
            return tuple([n if n < 2 else -1 - sizes.index(n) for n in shape])

        is_here, char, shape, strides = type(value) is self.type, value.dtype.char, value.shape, value.strides
        goal = shape if whole is None else whole
        if not is_here and (not shape or (value.size and not any(strides))):
            first = (0,) * len(shape)
            return Operand(char, (), (), named(goal), True), (lambda v: np.asarray(v[first])) if shape else None
        repeats = [n > 1 and s == 0 for n, s in zip(shape, strides)] if value.size else [False] * len(shape)
        small = tuple([1 if r else n for n, r in zip(shape, repeats)])
        order = axis_order(small, strides)
        made = Operand(char, named(small), order, named(goal), False)
        if not is_here:
            name = device_name(number)
            return made, lambda v: self.upload(v[tuple([slice(0, 1) if r else slice(None) for r in repeats])], name)
        if not is_dense(small, strides, value.itemsize):
            return made, lambda v: self.copy(self.strided(v, small, v.strides), v.strides)
        return made, (lambda v: self.strided(v, small, v.strides)) if any(repeats) else None


def device_name(number: int) -> str:
    return f"cuda:{number}" if number else "cuda"


def result_order(op: str, values: Sequence[Any], params: dict[str, Any], whole: Shape | None) -> tuple[int, ...]:
    """The order of axes in memory of the result, which is NumPy's for elementwise ops."""
    metas = [TensorMeta(v.shape, v.dtype, v.strides) for v in values]
    if whole is not None:
        repeated = [m.with_(shape=whole, strides=broadcast_strides(m, whole)) for m in metas if m.ndim]
        return axis_order(whole, keep_order_strides(whole, 8, repeated))  # type: ignore[arg-type]
    meta = OPS[op].meta(*metas, **params)
    return () if isinstance(meta, TupleMeta) else axis_order(meta.shape, meta.strides)  # type: ignore[arg-type]


def compile_op(
    op: str,
    number: int,
    operands: Sequence[Operand],
    params: dict[str, Any],
    order: tuple[int, ...],
    dtypes: Sequence[np.dtype],
    sizes: Sequence[int],
    is_static: bool,
) -> Program | None:
    """The program of one node; None where it is only right for these sizes, and they are to be symbols."""
    builder = Builder()
    names = [f"s{k}" for k in range(len(sizes))]
    symbols = list(sizes) if is_static else [builder.env.symbol(name, n, at_least=2) for name, n in zip(names, sizes)]

    def sized(shape: Shape) -> tuple[Size, ...]:
        return tuple([n if n >= 0 else symbols[-1 - n] for n in shape])

    nodes = []
    for k, o in enumerate(operands):
        dtype, small = dtype_of_char(o.char), sized(o.sizes)
        node = builder.input(TensorMeta(small, dtype, packed_strides(small, dtype.itemsize, o.order)))
        node = cast(builder, node, dtypes[k]) if dtypes else node
        nodes.append(node if o.sizes == o.shape else builder.apply("broadcast_to", node, shape=sized(o.shape)))
    node = builder.apply(op, *nodes, **params)
    is_tuple = isinstance(node.meta, TupleMeta)
    if is_tuple:
        outputs = [builder.apply("item", node, index=k) for k in range(len(node.meta.items))]  # type: ignore[attr-defined]
        metas = [TensorMeta(n.shape, n.dtype) for n in outputs]
    else:
        outputs = [node]
        metas = [TensorMeta(node.shape, node.dtype, packed_strides(node.shape, node.dtype.itemsize, order))]
    if builder.env.guards:
        return None
    graph = replace(builder.finish(outputs, metas, name=op), checks=frozenset())
    compiled = backend.compile_for(graph, cuda.numbered_device(number), stays=True)
    return Program(compiled.call, tuple([names.index(s) for s in graph.symbols]), is_tuple)


def compile_grid(number: int, shape: Shape, axis: int) -> Program:
    """The positions along an axis of an array of this many axes; sizes but 0 and 1 are symbols, in their order."""
    builder = Builder()
    symbols = [builder.env.symbol(f"s{k}", n, at_least=2) if n > 1 else n for k, n in enumerate(shape)]
    node = builder.apply("index", shape=tuple(symbols), axis=axis)
    graph = replace(builder.finish([node], name="index"), checks=frozenset())
    compiled = backend.compile_for(graph, cuda.numbered_device(number), stays=True)
    order = [sum(n > 1 for n in shape[: int(s[1:])]) for s in graph.symbols]
    return Program(compiled.call, tuple(order), False)

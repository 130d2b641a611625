"""An array that may have a gradient: the data of a Tensor, without NumPy's surface."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Self
from weakref import ref

import numpy as np

from npcompile.tensor_core.dtypes import is_number, kind_of
from npcompile.tensor_core.meta import TensorMeta
from npcompile.tensor_core.tensors import devices
from npcompile.tensor_core.tensors.tape import RECORDING, Memory, TapeArray, TapeNode, TapeStorage, alias_node, data_node, meta_of


def require_numbers(data: np.ndarray) -> np.ndarray:
    dtype = data.dtype
    if not is_number(dtype):
        raise TypeError(
            f"a Tensor holds booleans, integers, floats or complex numbers in native byte order, not {dtype}: "
            "keep this in a NumPy array, or convert it with astype first."
        )
    return data


class Handle:
    """`_data` shows the present contents: an ndarray, or the array of a device, which NumPy itself cannot read. `_link` is
    what the tape knows of them: None while it knows nothing."""

    __slots__ = ("__weakref__", "_data", "_is_scalar", "_link", "grad")

    _data: Any
    _link: TapeArray | None
    _is_scalar: bool  # did NumPy give an array scalar? Its operators and methods are not those of an array of no dimensions
    grad: Any

    @classmethod
    def _of(cls, data: Any, link: TapeArray | None = None) -> Self:
        self = object.__new__(cls)
        self._data, self._link, self._is_scalar, self.grad = data, link, False, None
        return self

    @property
    def _array(self) -> TapeArray:
        """The Array that captured forms of NumPy functions take."""
        if self._link is None:
            self._attach(TapeStorage(self._data, Memory()))
        assert self._link is not None
        return self._link

    @property
    def _meta(self) -> TensorMeta:
        """An array of a device cannot say that it is read-only: the tape knows."""
        return meta_of(self._data) if self._link is None or type(self._data) is np.ndarray else self._link.meta

    @property
    def device(self) -> str:
        """Where the numbers are: "cpu", "cuda", or "cuda:1" and so on."""
        return devices.device_of(self._data)

    @property
    def _host(self) -> np.ndarray:
        """The contents as an ndarray: a copy where they are on a device."""
        return devices.to_host(self._data)

    def _attach(self, storage: TapeStorage) -> None:
        self._link = TapeArray(storage, (), self._meta)

    @property
    def _storage(self) -> TapeStorage:
        return self._array.storage  # type: ignore[return-value]

    @property
    def _node(self) -> TapeNode:
        return self._array.node  # type: ignore[return-value]

    @property
    def _version(self) -> int:
        """How often the memory has been written through Tensors."""
        return 0 if self._link is None else self._storage.memory.version

    def _wrote(self) -> None:
        """The memory was written without the tape."""
        if self._link is not None:
            self._storage.memory.version += 1

    # --- what has a gradient

    @property
    def _has_hooks(self) -> bool:
        return self._link is not None and bool(self._node.graph_node.hooks)

    @property
    def requires_grad(self) -> bool:
        """Are operations on this Tensor recorded, so that `backward` of what they give computes its gradient?"""
        link = self._link
        return link is not None and link.storage.present.needs_grad and kind_of(self._data.dtype) in "fc"  # type: ignore[attr-defined]

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    @property
    def is_leaf(self) -> bool:
        """Was it made by the user, not computed from Tensors that require grad? Leaves get `.grad`."""
        link = self._link
        if link is None or not self.requires_grad:
            return True
        present: TapeNode = link.storage.present  # type: ignore[attr-defined]
        return not link.steps and present.graph_node.leaf is not None

    @property
    def grad_fn(self) -> str | None:
        """The name of the operation that computed this Tensor, where that has a gradient."""
        if self.is_leaf:
            return None
        node: Any = self._node
        while node.op in ("alias", "item") and node.inputs:
            (node,) = node.inputs
        return node.op if node.inputs or not self._array.steps else self._array.steps[-1].kind

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Have operations on this Tensor recorded from now on, or not, in place. Returns the Tensor.

        RuntimeError for booleans and integers, which have no gradients, and for Tensors that were computed.
        """
        if requires_grad == self.requires_grad:
            return self
        if not self.is_leaf:
            raise RuntimeError(
                "only leaf Tensors can stop requiring grad: this one was computed. Use x.detach() for a Tensor without the graph."
            )
        if not requires_grad:
            self._attach(TapeStorage(self._data, self._storage.memory))
            return self
        if kind_of(self._data.dtype) not in "fc":
            raise RuntimeError(
                f"only Tensors of floating point and complex dtype can require gradients, not {self._data.dtype}: "
                "convert it first, as in x.astype(float)."
            )
        memory = self._storage.memory
        node = data_node(self._data, memory)
        node.needs_grad, node.leaf = True, ref(self)
        self._attach(TapeStorage(self._data, memory, node))
        return self

    def detach(self) -> Self:
        """A Tensor of the same memory that requires no grad."""
        return self._of(self._data, TapeArray(TapeStorage(self._data, self._storage.memory), (), self._meta))

    def retain_grad(self) -> None:
        """Have `backward` set `.grad` of this computed Tensor too."""
        if not self.requires_grad:
            raise RuntimeError("a Tensor that does not require grad has no grad to retain: make its inputs require grad.")
        if not self.is_leaf:
            self._node.graph_node.retain = ref(self)

    def register_hook(self, hook: Callable[[Any], Any]) -> RemovableHook:
        """Call `hook(grad)` when the gradient of this Tensor is known. What it returns, unless None, replaces the gradient.

        Hooks run in the order in which they were registered. The result's `remove()` takes the hook away.
        """
        if not self.requires_grad:
            raise RuntimeError("a Tensor that does not require grad has no gradient to hook: make its inputs require grad.")
        node = self._node.graph_node
        node.hooks = {} if node.hooks is None else node.hooks
        return RemovableHook(node.hooks, hook)

    # --- conversions

    def numpy(self) -> np.ndarray:
        """The ndarray of the same memory; of a Tensor on a device a copy.

        RuntimeError when the Tensor requires grad: what is done to the ndarray would not be seen.
        """
        if self.requires_grad:
            raise RuntimeError("a Tensor that requires grad cannot be given out as an ndarray: use x.detach().numpy().")
        return self._host

    @property
    def _mask(self) -> Any:
        """numpy.ma takes `_data` of anything that has it, and then asks for this: what requires grad refuses here."""
        self.numpy()
        raise AttributeError("_mask")


HOOK_NUMBERS = itertools.count()


class RemovableHook:
    """A registered hook; `remove()` takes it away."""

    def __init__(self, hooks: dict[int, Callable[[Any], Any]], hook: Callable[[Any], Any]):
        self._hooks, self._number = hooks, next(HOOK_NUMBERS)
        hooks[self._number] = hook

    def remove(self) -> None:
        self._hooks.pop(self._number, None)


def from_node(kind: type[Handle], node: TapeNode, meta: Any = None, device: str | None = None) -> Any:
    """A Tensor of its own memory that shows the node's value, with the memory order of `meta`, on a device if one is named."""
    storage = adopt(node, node.meta if meta is None else meta, device)
    link = TapeArray(storage, (), storage.meta) if node.needs_grad else None
    return kind._of(storage.data, link)


def adopt(node: TapeNode, meta: Any, device: str | None = None) -> TapeStorage:
    """Storage for a computed node: its value itself when nothing else has that memory, else a copy."""
    value = node.value
    if device is not None:
        node = moved_node(node, device)
        value = node.value
    if not node.memory.is_owned and devices.is_writeable(value) and has_strides(value, meta.strides):
        node.loosen()
        return TapeStorage(value, node.memory, node)
    data = copy_ordered(value, meta.strides)
    memory = Memory()
    return TapeStorage(data, memory, alias_node(node, data, memory))


def has_strides(x: np.ndarray, strides: tuple[int, ...]) -> bool:
    return x.strides == strides or all(n <= 1 or s == t for n, s, t in zip(x.shape, x.strides, strides))


def copy_ordered(x: Any, strides: tuple[int, ...]) -> Any:
    """A copy whose axes lie in memory in the order that `strides` have."""
    if (kind := devices.kind_of(x)) is not None:
        return kind.copy(x, strides)
    if len(strides) < 2:
        return np.copy(x)
    order = sorted(range(x.ndim), key=lambda a: -abs(strides[a]))
    data = np.empty([x.shape[a] for a in order], x.dtype).transpose(np.argsort(order))
    data[...] = x
    return data


def moved_node(node: TapeNode, device: str) -> TapeNode:
    """The value on another device. Its gradient comes back to where the value is."""
    source = devices.device_of(node.value)
    if source == device:
        return node
    data = devices.to_device(node.value, device)
    if not (node.needs_grad and RECORDING.get()):
        return data_node(data, Memory())
    moved = TapeNode("to", (node,), {}, meta_of(data), data, Memory(), True)
    moved.vjp = lambda g, out, x: x.of(moved_node(g.node, source))
    return moved


def is_recorded(*handles: Handle) -> bool:
    return RECORDING.get() and any(h.requires_grad for h in handles)

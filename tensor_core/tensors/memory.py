"""What a Tensor says of its memory, and changes of its outside: base, flat, bytes, flags, a new shape in place."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from types import GenericAlias
from typing import Any, Self

import numpy as np

from npcompile.tensor_core.dtypes import is_bfloat16
from npcompile.tensor_core.tensors.calls import SURFACE, plain
from npcompile.tensor_core.tensors.devices import KINDS
from npcompile.tensor_core.tensors.handle import Handle
from npcompile.tensor_core.tensors.results import box, view_in
from npcompile.tensor_core.tensors.tape import TapeArray, meta_of


class Flat:
    """`x.flat`: the elements in C order, as np.flatiter gives them."""

    def __init__(self, tensor: Any):
        self._tensor = tensor
        if not tensor.requires_grad:
            self._iterator = tensor.numpy().flat

    @functools.cached_property
    def _iterator(self) -> Any:
        return self._tensor.numpy().flat  # raises for what requires grad

    @property
    def base(self) -> Any:
        return self._tensor

    @property
    def index(self) -> int:
        return self._iterator.index

    @property
    def coords(self) -> tuple[int, ...]:
        return self._iterator.coords

    def __len__(self) -> int:
        return len(self._iterator)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return box(type(self._tensor), next(self._iterator))

    def __getitem__(self, key: Any) -> Any:
        return box(type(self._tensor), self._iterator[plain(key)])

    def __setitem__(self, key: Any, value: Any) -> None:
        self._iterator[plain(key)] = plain(value)
        self._tensor._wrote()

    def __delitem__(self, key: Any) -> None:
        raise TypeError("cannot delete elements of a flat iterator")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self._iterator, dtype, copy=copy)

    def copy(self) -> Any:
        return box(type(self._tensor), self._iterator.copy())

    def __eq__(self, other: Any) -> Any:
        return box(type(self._tensor), self._iterator == plain(other))

    def __ne__(self, other: Any) -> Any:
        return box(type(self._tensor), self._iterator != plain(other))

    def __lt__(self, other: Any) -> Any:
        return box(type(self._tensor), self._iterator < plain(other))

    def __le__(self, other: Any) -> Any:
        return box(type(self._tensor), self._iterator <= plain(other))

    def __gt__(self, other: Any) -> Any:
        return box(type(self._tensor), self._iterator > plain(other))

    def __ge__(self, other: Any) -> Any:
        return box(type(self._tensor), self._iterator >= plain(other))

    __hash__ = None  # type: ignore[assignment]


class MemoryAccess(Handle):
    """The attributes and methods of ndarray that are about memory, not about numbers.

    What requires grad refuses those that would lose it, as `numpy()` does.
    """

    __slots__ = ("_base",)
    _base: Handle  # set on views: the Tensor whose memory it is

    __class_getitem__: Any = classmethod(GenericAlias)

    @property
    def base(self) -> Any:
        """The Tensor, or other object, whose memory this is a view of; None where it owns its memory."""
        try:
            return self._base
        except AttributeError:
            native = None if type(self._data) in KINDS else self._data.base
            return box(type(self), native) if isinstance(native, np.ndarray) else native

    @property
    def flat(self) -> Flat:
        """The elements in C order, to be iterated, read and written; without gradients."""
        return Flat(self)

    @flat.setter
    def flat(self, value: Any) -> None:
        self.flat[...] = value

    @property
    def data(self) -> memoryview:
        """The buffer of the memory: read-only where the Tensor requires grad."""
        return self._host.data.toreadonly() if self.requires_grad else self._host.data

    @property
    def ctypes(self) -> Any:
        """As ndarray.ctypes: pointers to the memory."""
        if type(self._data) in KINDS:
            raise AttributeError(f"ctypes: the Tensor is on {self.device!r}")
        return self._data.ctypes

    def _told(self) -> np.ndarray:
        """The array whose memory others are told of. What is on a device, and bfloat16, is not told so."""
        if type(self._data) in KINDS or is_bfloat16(self._data.dtype):
            raise AttributeError(f"array interfaces do not tell {self._data.dtype} on {self.device!r}")
        return self.numpy()

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """Where the memory is."""
        return self._told().__array_interface__

    @property
    def __array_struct__(self) -> Any:
        """The same in C, which NumPy prefers."""
        return self._told().__array_struct__

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self._data.__sizeof__()  # type: ignore[no-any-return]

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """The module whose functions take and give Tensors (array API standard). ValueError: no such version of it."""
        np.empty(0).__array_namespace__(api_version=api_version)
        return SURFACE.namespace

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        """What NumPy makes of an array that it computed from this Tensor and others."""
        return box(type(self), plain(array))

    def to_device(self, device: str, /, *, stream: Any = None) -> Any:
        """The Tensor on a device, as `to`. ValueError for a stream other than None."""
        if stream is not None:
            raise ValueError("The stream argument in to_device() is not supported")
        return self.to(device)  # type: ignore[attr-defined]

    # --- changed in place

    def _set(self, name: str, value: Any) -> None:
        """Show the memory in another shape or dtype. RuntimeError: what requires grad keeps these."""
        if self.requires_grad:
            raise RuntimeError(f"a Tensor that requires grad keeps its {name}: use reshape, view or astype.")
        data = self._host.view()
        setattr(data, name, value)
        self._data, self._link = data, None if self._link is None else view_in(type(self), data, self)._link

    def resize(self, *new_shape: Any, refcheck: bool = True) -> None:
        """As ndarray.resize, in place. ValueError where other arrays see the memory."""
        if self.requires_grad or self._link is not None:
            raise ValueError("cannot resize a Tensor whose memory the recorded graph may read: use np.resize.")
        self._data.resize(*new_shape, refcheck=refcheck)

    def setflags(self, write: bool | None = None, align: bool | None = None, uic: bool | None = None) -> None:
        """As ndarray.setflags."""
        self._host.setflags(write, align, uic)
        if (link := self._link) is not None:
            self._link = TapeArray(link.storage, link.steps, meta_of(self._data), link.parent)  # type: ignore[arg-type]

    def __delitem__(self, key: Any) -> None:
        raise ValueError("cannot delete array elements")

    # --- bytes and files

    def tofile(self, file: Any, sep: str = "", format: str = "%s") -> None:
        """As ndarray.tofile."""
        self.numpy().tofile(file, sep, format)

    def dump(self, file: Any) -> None:
        """A pickle of the ndarray in a file, which np.load reads."""
        self.numpy().dump(file)

    def dumps(self) -> bytes:
        """A pickle of the ndarray."""
        return self.numpy().dumps()

    def getfield(self, dtype: Any, offset: int = 0) -> Any:
        """As ndarray.getfield: a view of part of each element."""
        return box(type(self), self.numpy().getfield(dtype, offset), self)

    def setfield(self, value: Any, dtype: Any, offset: int = 0) -> None:
        """As ndarray.setfield."""
        self.numpy().setfield(plain(value), dtype, offset)
        self._wrote()

    def byteswap(self, inplace: bool = False) -> Self:
        """As ndarray.byteswap."""
        swapped = self.numpy().byteswap(inplace)
        if not inplace:
            return self._of(swapped)
        self._wrote()
        return self

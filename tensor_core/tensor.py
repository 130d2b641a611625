"""The eager Tensor: a NumPy array with gradients. Every operation is NumPy's; results are Tensors."""

from __future__ import annotations

import copy
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from npcompile.tensor_core import python_operators
from npcompile.tensor_core.dtypes import is_bfloat16
from npcompile.tensor_core.tensors import activations, backward, devices, exchange
from npcompile.tensor_core.tensors.calls import SURFACE, Call, out_position, plain
from npcompile.tensor_core.tensors.devices import KINDS
from npcompile.tensor_core.tensors.dispatch import perform
from npcompile.tensor_core.tensors.handle import RemovableHook, from_node, moved_node, require_numbers
from npcompile.tensor_core.tensors.memory import MemoryAccess
from npcompile.tensor_core.tensors.modes import enable_grad, is_grad_enabled, no_grad
from npcompile.tensor_core.tensors.taken import note_taken

__all__ = [
    "RemovableHook",
    "Tensor",
    "asarray",
    "attach",
    "enable_grad",
    "from_dlpack",
    "from_numpy",
    "gradients_of",
    "is_grad_enabled",
    "lost",
    "no_grad",
    "tensor",
]


if TYPE_CHECKING:
    from npcompile.tensor_core.tensors.signatures import Signatures

    class WithOperators(MemoryAccess, Signatures):
        """What is put on Tensor from NumPy's tables (`put_on`)."""

else:
    WithOperators = MemoryAccess


class Tensor(WithOperators):
    """A NumPy array on a device, whose operations are recorded where it requires a gradient.

    NumPy's functions, ufuncs, operators and the methods of ndarray work on Tensors and give Tensors, with the values,
    dtypes, memory order and views that NumPy gives; where NumPy gives a scalar there is a Tensor of no dimensions.
    Made by `tensor`, `from_numpy`, `zeros`, ...

    >>> x = tensor([1.0, 2.0], requires_grad=True)
    >>> np.sum(x * x).backward()
    >>> x.grad
    Tensor([2., 4.])
    """

    __slots__ = ()

    def __init__(self, data: Any, dtype: Any = None, *, requires_grad: bool = False):
        """A copy of `data`, as `tensor(data, dtype, requires_grad=requires_grad)` makes."""
        self._data, self._link, self.grad = devices.to_device(copied_data(data, dtype), chosen(None, data)), None, None
        self._is_scalar = False
        if requires_grad:
            self.requires_grad_()

    # --- NumPy's protocols

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, /, *inputs: Any, **kwargs: Any) -> Any:
        out = kwargs.get("out", ())
        if not all(is_operand(v) or v is None or v is ... for v in (*inputs, *out)):
            return NotImplemented
        if len(out) == 1 and out[0] is ...:  # an array where there would be a scalar: Tensors always are
            del kwargs["out"]
        return perform(ufunc_call(ufunc, method), inputs, kwargs)

    def __array_function__(self, function: Any, types: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        if not all(issubclass(t, Tensor) or t.__array_function__ is np.ndarray.__array_function__ or t in KINDS for t in types):
            return NotImplemented
        return perform(function_call(function), args, kwargs)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False and type(self._data) in KINDS:
            raise ValueError(f"an ndarray of what is on {self.device!r} is a copy, and copy=False forbids it.")
        return np.array(self.numpy(), dtype, copy=copy)

    # --- subscripts

    def __getitem__(self, key: Any) -> Tensor:
        return perform(Call("x[...]", operator.getitem, SURFACE.operators["getitem"]), (self, plain(key)), {})

    def __setitem__(self, key: Any, value: Any) -> None:
        call = Call("x[...] = y", operator.setitem, SURFACE.operators["setitem"], written=0)
        perform(call, (self, plain(key), value), {})

    def __len__(self) -> int:
        return len(self._data)

    def __iter__(self) -> Iterator[Tensor]:
        if not self._data.ndim:
            raise TypeError("iteration over a 0-D Tensor")
        return (self[i] for i in range(len(self)))

    def __contains__(self, value: Any) -> bool:
        if type(self._data) in KINDS:
            return bool((self == value).any())  # type: ignore[attr-defined]
        return plain(value) in self._data

    # --- attributes

    @property
    def shape(self) -> tuple[int, ...]:
        return self._data.shape

    @shape.setter
    def shape(self, value: Any) -> None:
        self._set("shape", value)

    @property
    def dtype(self) -> np.dtype:
        return self._data.dtype

    @dtype.setter
    def dtype(self, value: Any) -> None:
        self._set("dtype", value)

    @property
    def ndim(self) -> int:
        return self._data.ndim

    @property
    def size(self) -> int:
        return self._data.size

    @property
    def strides(self) -> tuple[int, ...]:
        return self._data.strides

    @strides.setter
    def strides(self, value: Any) -> None:
        self._set("strides", value)

    @property
    def itemsize(self) -> int:
        return self._data.itemsize

    @property
    def nbytes(self) -> int:
        return self._data.nbytes

    @property
    def flags(self) -> Any:
        """Of the array; to be read."""
        if type(self._data) not in KINDS:
            return self._data.flags
        return devices.shadow(self._data, self._meta.writeable).flags

    @property
    def T(self) -> Tensor:
        return perform(attribute_call("T"), (self,), {})

    @property
    def mT(self) -> Tensor:
        return perform(attribute_call("mT"), (self,), {})

    @property
    def real(self) -> Tensor:
        return perform(attribute_call("real"), (self,), {})

    @real.setter
    def real(self, value: Any) -> None:
        self.real[...] = value

    @property
    def imag(self) -> Tensor:
        return perform(attribute_call("imag"), (self,), {})

    @imag.setter
    def imag(self, value: Any) -> None:
        if self.dtype.kind != "c":
            np.zeros(()).imag = 0  # raises as NumPy does
        self.imag[...] = value

    def view(self, *args: Any, **kwargs: Any) -> Tensor:
        """As ndarray.view. As a Tensor, or np.ndarray, it is a Tensor."""
        own = [np.ndarray if isinstance(a, type) and a is not object and issubclass(Tensor, a) else a for a in args]
        return perform(method_call("view"), (self, *own), kwargs)

    # --- gradients

    def backward(self, gradient: Any = None, retain_graph: bool = False, create_graph: bool = False) -> None:
        """Add the gradient of this Tensor to `.grad` of every leaf that it was computed from.

        `gradient`, of this Tensor's shape, is what the derivative is multiplied with from the left; a Tensor of one
        element needs none. The recorded graph is freed then, unless `retain_graph`. With `create_graph` the gradients
        are recorded themselves, so that they have gradients.
        RuntimeError when there is no gradient, and why.
        """
        given = None if gradient is None else [gradient]
        backward.backward([self], given, retain_graph=retain_graph, create_graph=create_graph)

    def clone(self) -> Tensor:
        """A copy in its own memory, through which gradients flow."""
        return self.copy("K")  # type: ignore[attr-defined]

    # --- conversions

    def to(self, device: str) -> Tensor:
        """The Tensor on a device ("cpu", "cuda", "cuda:1"): itself when it is there, else a copy. Gradients come back.

        ValueError for a name that no device has, RuntimeError where there is no such device, and what is missing.
        """
        name = device if device == "cpu" else devices.open_kind(device).normalize(device)
        if name == self.device:
            return self
        if self.requires_grad:
            return from_node(type(self), moved_node(self._node, name))
        return self._of(devices.to_device(self._data, name))

    def cpu(self) -> Tensor:
        """The Tensor in the memory of the CPU: itself when it is there, else a copy."""
        return self.to("cpu")

    def item(self, *args: Any) -> Any:
        """The element as a Python number; of several, the one at the position given."""
        note_taken(self.requires_grad, is_meant=True)
        return self._host.item(*args)

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers."""
        note_taken(self.requires_grad, is_meant=True)
        return self._host.tolist()

    def __float__(self) -> float:
        note_taken(self.requires_grad, is_meant=False)
        return float(self._host)

    def __int__(self) -> int:
        return int(self._host)

    def __complex__(self) -> complex:
        note_taken(self.requires_grad, is_meant=False)
        return complex(self._host)

    def __floor__(self) -> int:
        return math.floor(self._host)

    def __ceil__(self) -> int:
        return math.ceil(self._host)

    def __trunc__(self) -> int:
        return int(self._host)

    def __round__(self, digits: int | None = None) -> Any:
        """As of a NumPy scalar: a Python int, or with `digits` a number of the same dtype."""
        if self.ndim:
            raise TypeError("only Tensors of no dimensions can be rounded by round(): use np.round")
        return round(self._host[()]) if digits is None else np.round(self, digits)  # type: ignore[call-overload]

    def __index__(self) -> int:
        return operator.index(self._host)

    def __bool__(self) -> bool:
        return bool(self._host)

    def __hash__(self) -> int:
        return id(self)

    def __format__(self, spec: str) -> str:
        return format(self._host[()] if not self._data.ndim else self._host, spec)

    def __str__(self) -> str:
        return str(self._host)

    def __repr__(self) -> str:
        """As NumPy prints, with what else there is to say."""
        notes = []
        if self.grad_fn is not None:
            notes.append(f"grad_fn={self.grad_fn}")
        elif self.requires_grad:
            notes.append("requires_grad=True")
        if type(self._data) in KINDS:
            notes.append(f"device={self.device}")
        shown = repr(np.asarray(self._host).view(Printed))
        return f"{shown[:-1]}, {', '.join(notes)})" if notes else shown

    # --- exchange

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None) -> Any:
        if self.requires_grad:
            raise BufferError("a Tensor that requires grad cannot be exported: use x.detach().")
        keywords = {"stream": stream, "max_version": max_version, "dl_device": dl_device, "copy": copy}
        if is_bfloat16(self.dtype):
            return exchange.to_dlpack(self._data.view(np.uint16), **keywords)
        return self._data.__dlpack__(**keywords)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._data.__dlpack_device__()

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Of a Tensor on a CUDA device: where its memory is, for other libraries. Others have no such attribute, nor bfloat16."""
        if type(self._data) not in KINDS:
            raise AttributeError("__cuda_array_interface__: the Tensor is on the CPU")
        if self.requires_grad:
            raise RuntimeError("a Tensor that requires grad cannot be exported: use x.detach().")
        if is_bfloat16(self.dtype):
            raise AttributeError("__cuda_array_interface__ has no name for bfloat16: exchange it by DLPack")
        return self._data.__cuda_array_interface__

    def __reduce__(self) -> tuple[Any, ...]:
        return rebuilt, (type(self), self._host, self.requires_grad, self.device)

    def __copy__(self) -> Tensor:
        if self.requires_grad and not self.is_leaf:
            return self._of(self._data, self._link)
        return self.detach().requires_grad_(self.requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        if not self.is_leaf:
            raise RuntimeError("only leaf Tensors have deep copies: this one belongs to a graph. Use x.detach().clone().")
        made = self._of(copied_data(self)).requires_grad_(self.requires_grad)
        memo[id(self)] = made
        made.grad = copy.deepcopy(self.grad, memo)
        return made

    softmax = activations.softmax
    relu = activations.relu
    gelu = activations.gelu
    sigmoid = activations.sigmoid


# NumPy prints the name of an array's class.
Printed = type("Tensor", (np.ndarray,), {})


def rebuilt(kind: type[Tensor], data: np.ndarray, requires_grad: bool, device: str = "cpu") -> Tensor:
    """What a pickle makes. RuntimeError where the device that it was on is missing."""
    return kind._of(devices.to_device(data, device)).requires_grad_(requires_grad)


# --- calls of NumPy

IN_PLACE = (np.copyto, np.put, np.putmask, np.place, np.fill_diagonal, np.put_along_axis)  # they change their first argument


@lru_cache(maxsize=1024)
def function_call(function: Any) -> Call:
    written = 0 if function in IN_PLACE else None
    captured = SURFACE.functions.get(function)
    return Call(f"np.{function.__name__}", function, captured, written, function, out_position(function))


@lru_cache(maxsize=1024)
def ufunc_call(ufunc: np.ufunc, method: str) -> Call:
    if not isinstance(ufunc, np.ufunc):
        raise TypeError(f"__array_ufunc__ takes a ufunc, not {ufunc!r}")
    if method == "__call__":
        return Call(f"np.{ufunc.__name__}", ufunc, SURFACE.functions.get(ufunc) or SURFACE.other_ufunc(ufunc), ufunc=ufunc)
    captured = SURFACE.ufunc_methods.get(method)
    bound = captured and (lambda builder, *args, **kwargs: captured(builder, ufunc, *args, **kwargs))
    return Call(f"np.{ufunc.__name__}.{method}", getattr(ufunc, method), bound, 0 if method == "at" else None)


@lru_cache(maxsize=256)
def attribute_call(name: str) -> Call:
    return Call(f"x.{name}", operator.attrgetter(name), SURFACE.attributes.get(name))


@lru_cache(maxsize=256)
def method_call(name: str) -> Call:
    written, out = 0 if name in CHANGING else None, out_position(getattr(np, name, None))
    of_scalar = getattr(np.generic, name, None)  # they cannot be changed
    return Call(f"x.{name}", getattr(np.ndarray, name), SURFACE.methods.get(name), written, out=out, of_scalar=of_scalar)


@lru_cache(maxsize=256)
def operator_call(symbol: str, native: Callable[..., Any]) -> Call:
    in_place = 0 if symbol.endswith("=") and symbol not in python_operators.COMPARE else None
    return Call(symbol, native, SURFACE.operators.get(symbol), in_place, ufunc=UFUNCS.get(symbol), of_scalar=native)


CHANGING = ("fill", "partition", "put", "sort")  # methods that change the array itself
UNARY: dict[str, Callable[..., Any]] = {"-x": operator.neg, "+x": operator.pos, "~x": operator.invert, "absx": operator.abs}
BINARY = python_operators.BINARY | {"divmod": divmod}


# Operators that are a ufunc for all operands. (`x ** 2` is np.square, lists and `*` are special.)
UFUNCS: dict[str, np.ufunc] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
    "-x": np.negative,
}


# The comparison that Python asks the other operand for.
SWAPPED = {"__lt__": "__gt__", "__le__": "__ge__", "__gt__": "__lt__", "__ge__": "__le__", "__eq__": "__eq__", "__ne__": "__ne__"}
SIMPLE = frozenset((Tensor, np.ndarray, int, float, bool, complex))


def is_operand(value: Any) -> bool:
    """Do operators and ufuncs take it beside a Tensor, as beside an ndarray? Other types of arrays answer for themselves.

    See NumPy's "array subclasses and precedence": https://numpy.org/doc/stable/reference/arrays.classes.html
    """
    if isinstance(value, (Tensor, np.generic, bool, int, float, complex, list, tuple)) or type(value) is np.ndarray:
        return True
    kind = type(value)
    if hasattr(kind, "__array_ufunc__"):
        return kind.__array_ufunc__ is np.ndarray.__array_ufunc__ or kind in KINDS
    return kind in KINDS or getattr(value, "__array_priority__", 0.0) <= 0.0


def method(name: str) -> Callable[..., Any]:
    def call(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        return perform(method_call(name), (self, *args), kwargs)

    call.__name__, call.__qualname__, call.__doc__ = name, f"Tensor.{name}", f"As ndarray.{name}."
    call.__wrapped__ = getattr(np.ndarray, name)  # type: ignore[attr-defined]  # whose signature it has
    return call


def binary(
    symbol: str, native: Callable[..., Any], other_name: str = "", is_reflected: bool = False
) -> Callable[[Tensor, Any], Any]:
    """The special method for an operator. `other_name` is the one of the other operand that Python asks when this declines."""

    def call(self: Tensor, other: Any) -> Any:
        if type(other) not in SIMPLE and (not is_operand(other) or answers_first(other, other_name)):
            return NotImplemented
        return perform(operator_call(symbol, native), (other, self) if is_reflected else (self, other), {})

    return call


def answers_first(other: Any, name: str) -> bool:
    """Python asks a subclass of ndarray before ndarray itself, where it has its own meaning of the operator."""
    kind = type(other)
    return bool(name) and isinstance(other, np.ndarray) and getattr(kind, name) is not getattr(np.ndarray, name)


def unary(symbol: str, native: Callable[..., Any]) -> Callable[[Tensor], Any]:
    return lambda self: perform(operator_call(symbol, native), (self,), {})


def define_operators() -> None:
    for name in dir(np.ndarray):
        if not name.startswith("_") and not hasattr(Tensor, name) and callable(getattr(np.ndarray, name)):
            setattr(Tensor, name, method(name))
    for symbol, native in UNARY.items():
        setattr(Tensor, dunder(native), unary(symbol, native))
    for symbol, native in python_operators.COMPARE.items():
        setattr(Tensor, dunder(native), binary(symbol, native, SWAPPED[dunder(native)]))
    for symbol, native in BINARY.items():
        name = dunder(native).strip("_")
        setattr(Tensor, dunder(native), binary(symbol, native, f"__r{name}__"))
        setattr(Tensor, f"__r{name}__", binary(symbol, native, is_reflected=True))
        if native is not divmod:
            setattr(Tensor, f"__i{name}__", binary(f"{symbol}=", getattr(operator, f"__i{name}__")))


def dunder(native: Callable[..., Any]) -> str:
    """The special method that the operator calls."""
    return f"__{native.__name__.strip('_')}__"


define_operators()


# --- Tensors from what there is


def tensor(data: Any, dtype: Any = None, device: str | None = None, requires_grad: bool = False) -> Tensor:
    """A Tensor with a copy of `data`: an array, a number, Tensors, nested lists of these. dtypes are NumPy's.

    It is on the device that is named, else on that of `data` when it is a Tensor or an array of a device, else on that of
    `with npcompile.device(...)`. TypeError for what is no array of numbers.
    """
    made, place = Tensor._of(copied_data(data, dtype)), chosen(device, data)
    made = made if place == made.device else made.to(place)
    return made.requires_grad_() if requires_grad else made


def chosen(device: str | None, like: Any = None) -> str:
    """The device for a new Tensor: the one named, else that of a Tensor or array of a device which it is made of, else the
    current one."""
    if device is not None:
        return device
    if isinstance(like, Tensor):
        return like.device
    return devices.device_of(like) if devices.is_on_device(like) else devices.CURRENT.get()


def copied_data(data: Any, dtype: Any = None) -> Any:
    """np.array(data, dtype), on the device where `data` is."""
    source = plain(data)
    if not KINDS:
        return require_numbers(np.array(source, dtype))
    if (kind := devices.kind_of(source)) is None:
        return require_numbers(np.array(devices.with_host_arrays(source), dtype))
    made = Tensor._of(kind.copy(source, source.strides))
    return made._data if dtype is None or np.dtype(dtype) == made.dtype else made.astype(dtype)._data  # type: ignore[attr-defined]


def from_numpy(array: np.ndarray) -> Tensor:
    """A Tensor of the array's own memory: both see what is written to either. A read-only array stays read-only."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"from_numpy takes an ndarray, not {type(array).__name__}: use tensor() or asarray().")
    return Tensor._of(require_numbers(np.asarray(array)))


def asarray(data: Any, dtype: Any = None, device: str | None = None) -> Tensor:
    """A Tensor with the contents of `data`, without a copy where that is possible: then they share memory.

    `data` may be an array of a device, as of CuPy. The device is chosen as by `tensor`.
    """
    place = chosen(device, data)
    if isinstance(data, Tensor):
        made = data
    elif devices.is_on_device(data):
        made = Tensor._of(require_numbers(data))
    elif (kind := devices.interface_of(data)) is not None:
        made = Tensor._of(require_numbers(devices.open_kind(kind).from_interface(data)))
        place = made.device if device is None else device
    else:
        made = Tensor._of(require_numbers(np.asarray(devices.with_host_arrays(plain(data)), dtype)))
    return (made if dtype is None else made.astype(dtype, copy=False)).to(place)  # type: ignore[attr-defined]


def from_dlpack(x: Any) -> Tensor:
    """A Tensor of the memory of an array of another library that exports DLPack, on the CPU or a device of ours.

    RuntimeError when the device, or what computes on it, is missing; BufferError for bfloat16 before ml_dtypes is imported.
    """
    name = devices.DLPACK_NAMES.get(x.__dlpack_device__()[0])
    take = np.from_dlpack if name is None else devices.open_kind(name).from_dlpack
    return Tensor._of(require_numbers(exchange.from_dlpack(x, take)))


# --- programs compiled elsewhere


def attach(
    outputs: Sequence[Any],
    inputs: Sequence[Tensor],
    call: Callable[[list[np.ndarray | None]], Sequence[np.ndarray | None]],
    replay: Callable[..., Any] | None = None,
) -> list[Tensor]:
    """Tensors around arrays that a program computed from `inputs`.

    Their gradient is one call of `call` with the cotangents of all outputs (None: zero), when all are known. It gives
    one array of the input's shape and dtype for each input, or None for zero. Outputs of integers have no gradient.
    `replay(cotangents, inputs)`, of Values on the tape, does the same where the gradient is to have one itself.
    """
    return backward.attach(Tensor, outputs, inputs, call, replay)


def lost(outputs: Sequence[np.ndarray], message: str) -> list[Tensor]:
    """Tensors around arrays whose gradient is lost: `backward` of them, or of what they go into, raises RuntimeError."""
    return backward.lost(Tensor, outputs, message)


def gradients_of(
    outputs: Sequence[Tensor],
    inputs: Sequence[Tensor],
    cotangents: Sequence[Any] | None = None,
    *,
    retain_graph: bool = False,
    create_graph: bool = False,
) -> list[Tensor | None]:
    """The gradients of the outputs (times their cotangents) with respect to `inputs`; None where nothing depends on one.

    No `.grad` is changed. The other arguments are those of `Tensor.backward`.
    """
    return backward.gradients_of(outputs, inputs, cotangents, retain_graph=retain_graph, create_graph=create_graph)

"""What comes from outside, as values: each is met when it is first read, and guarded by what this call shows of it."""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np

from npcompile.backends.device_arrays import ArrayKind, are_disjoint, array_kind, is_repeated
from npcompile.backends.overlap import OVERLAP, overlaps_itself
from npcompile.tensor_core.array import Array, Storage, Variable
from npcompile.tensor_core.dtypes import is_number
from npcompile.tensor_core.graph import Node, topological
from npcompile.tensor_core.guards import (
    All,
    Equals,
    Flags,
    Guard,
    HasKey,
    Is,
    Keeps,
    Keys,
    Layout,
    Length,
    OfDType,
    OfType,
    Truth,
    compared,
    parts_of,
)
from npcompile.tensor_core.meta import Decline, TensorMeta
from npcompile.tensor_core.number import Integer, Number
from npcompile.tensor_core.source import GLOBALS, Attribute, Bound, Call, Compared, Formula, Item, Literal, Name, Source, builtin
from npcompile.tensor_core.tensor import Tensor, is_grad_enabled
from npcompile.tensor_core.tensors.devices import is_on_device, open_kind
from npcompile.tensor_core.transforms.reverse import depending
from npcompile.tracer.assumptions import MOST_FORMS, Assumptions, most_values, of_function
from npcompile.tracer.constant_kinds import (
    ATOMIC_TYPES,
    KEY_TYPES,
    LONGEST_INTEGER,
    LONGEST_TEXT,
    NUMBER_TYPES,
    SYMBOLIC_INTEGERS,
    is_symbolic,
)
from npcompile.tracer.fresh_classes import meet_class
from npcompile.tracer.host_fallback import Place
from npcompile.tracer.identity_set import is_scalar
from npcompile.tracer.values import (
    LONGEST,
    Cell,
    Comparison,
    Constant,
    Lazy,
    Mapping,
    Method,
    Opaque,
    OutsideMapping,
    OutsideSequence,
    RangeValue,
    SetValue,
    SliceValue,
    TensorValue,
    Text,
    Transform,
    is_named_tuple,
)

# Of ndarray.flags.num; arrays of np.broadcast_arrays have the last.
ALIGNED, WRITEABLE, WARNS_OF_WRITES = 0x100, 0x400, 0x80000000
USABLE = ALIGNED | WARNS_OF_WRITES
ARRAY_FLAGS = 0x1 | USABLE | WRITEABLE  # C_CONTIGUOUS besides


class MixedDevices(RuntimeError):
    """Arrays of two devices meet in one program."""


def kinds_of(value: Any, guards: list[Guard]) -> list[Guard]:
    """Of the guards of a value from outside those that say of which kind it is, not how large."""
    if isinstance(value, (Constant, Opaque)):
        return guards
    found = [guard for guard in guards if isinstance(parts_of(guard)[0], OfType)]
    if isinstance(value, Array) and value.meta.boxed:
        found.append(Layout(value.storage.source, "ndim", value.ndim))
    return found


def is_method_of_object(value: Any) -> bool:
    """Is it a built-in method of an object that may go, `items.append` for one? It is made anew wherever it is asked for."""
    is_method = type(value) in (types.BuiltinFunctionType, types.MethodWrapperType)
    return is_method and not isinstance(value.__self__, ATOMIC_TYPES)


def is_global(source: Source) -> bool:
    """Is it a global of the function that is compiled?"""
    while isinstance(source, (Attribute, Item)):
        if source.owner == GLOBALS:
            return True
        source = source.owner
    return False


@dataclass(slots=True, eq=False)
class Wrapping(Assumptions):
    """The values of one attempt that came from outside, and which of them the program changes."""

    realized: dict[Source, Any] = field(default_factory=dict)  # source -> value
    by_identity: dict[int, tuple[Source, Any]] = field(default_factory=dict)  # id of an outside array -> its source, value
    examples: dict[Source, np.ndarray] = field(default_factory=dict)  # arrays read in this capture; dropped with it
    cells: dict[int, Cell] = field(default_factory=dict)  # id of a real cell -> what is in it now
    disjoint: tuple[Guard | None, tuple[int, list[Source]]] = (
        None,
        (0, []),
    )  # a guard that written arrays overlap no other; which these are
    tensors: dict[Source, tuple[TensorValue, Any]] = field(default_factory=dict)  # source -> Tensor from outside, example
    tensors_by_identity: dict[int, TensorValue] = field(default_factory=dict)  # id of one of these -> its value
    tensors_by_array: dict[int, TensorValue] = field(default_factory=dict)  # id of an Array -> the Tensor that holds it
    grad_enabled_outside: bool = field(default_factory=is_grad_enabled)
    varying: set[Source] = field(default_factory=set)  # sources of functions that are not assumed to be the ones that they are
    met: list[Guard] = field(default_factory=list)  # guards that say of which kinds values from outside are
    place: Place | None = None  # the device that the program runs on, when arrays came on one
    makes_on_cpu: bool = False  # has the program made Tensors that are to be on the CPU?
    owners: dict[int, Any] = field(default_factory=dict)  # id of an outside object that can be changed -> its value
    changed: dict[int, Any] = field(default_factory=dict)  # those of the values that the program changes
    on_device: dict[Source, Source] = field(default_factory=dict)  # source of an array of the device -> whose it is, for messages

    @property
    def grad_enabled(self) -> bool:
        """Are operations on Tensors recorded, here in the program?"""
        return self.builder.records

    @grad_enabled.setter
    def grad_enabled(self, value: bool) -> None:
        self.builder.records = value

    def realize(self, value: Any) -> Any:
        """What a Lazy value or a Comparison is, guarded by what this call shows of it."""
        while isinstance(value, Lazy):
            found = self.realized.get(value.source)
            if found is None:
                found = self.realized[value.source] = self._meet(value)
            value = found
        return self.ask(value) if isinstance(value, Comparison) else value

    def _meet(self, value: Lazy) -> Any:
        guards, found = self.builder.env.guards, None
        known = len(guards)
        try:
            found = self.wrap(value.source, value.example)
        finally:
            added = list(islice(reversed(guards), max(0, len(guards) - known)))  # not all of them for each value
            self.met += kinds_of(found, added[::-1])
        return found

    def read(self, source: Source, example: Any) -> Any:
        return self.realize(Lazy(source, example))

    def wrap(self, source: Source, x: Any) -> Any:
        kind = type(x)
        meet_class(self, Call(builtin(type), source), kind)
        if issubclass(kind, type):
            meet_class(self, source, x)
        if self.static and (constant := self.static_number(source, x)) is not None:
            return constant
        if kind is np.ndarray or array_kind(kind) is not None:
            return self._wrap_array(source, x)
        if kind is Tensor:
            return self._wrap_tensor(source, x)
        if issubclass(kind, np.generic) and is_number(x.dtype) and kind is x.dtype.type:
            self.guard(OfType(source, self.object_of(kind)))
            meta = TensorMeta((), x.dtype, boxed=False, writeable=False)
            return Array(Storage(self.builder.root, self.builder.input(meta, source), meta, source), (), meta)
        if kind is int:
            self.guard(OfType(source, builtin(int)))
            if x.bit_length() >= LONGEST_INTEGER:
                self.guard(Equals(source, self.object_of(x)))
                return Constant(x, source)
            if x not in SYMBOLIC_INTEGERS:
                return Integer(self.builder.env, source, x)
            name = self.bind(source, x, MOST_FORMS)
            self.guard(is_symbolic(Bound(name)))
            return self.builder.env.symbol(name, x)
        if kind is float or kind is complex:
            self.guard(OfType(source, builtin(kind)))
            return Number(self.builder.env, source, x)
        if kind is types.CellType:
            return self.cell(source, x)
        if kind is types.FunctionType and not (is_global(source) and self.is_first_function(source, x)):
            return self._wrap_function(source, x)
        if isinstance(x, (*ATOMIC_TYPES, Transform)) and not (isinstance(source, Name) and is_method_of_object(x)):
            self.guard(Is(source, self.object_of(x)))
            return Constant(x, source)
        if kind is str and len(x) <= LONGEST_TEXT and self.is_input(source, x):
            self.guard(OfType(source, builtin(str)))
            return Text(source, x)
        if kind in (str, bytes):
            if len(x) > LONGEST_TEXT or self.is_new("values of", source, x, most_values()):
                what = "long, or changes from call to call," if len(x) <= LONGEST_TEXT else "long"
                self.guard(OfType(source, builtin(kind)))
                raise Decline(f"a {kind.__name__} that is {what} is needed as a constant")
            self.guard(All((OfType(source, builtin(kind)), Equals(source, Literal(x)))))
            return Constant(x, source)
        if kind is range:
            return self._owner(source, x, self._wrap_range)
        if kind is tuple and is_global(source) and all(type(v) in NUMBER_TYPES for v in x) and self.is_first(source, x):
            self.guard(Is(source, self.object_of(x)))
            return OutsideSequence(kind, source, lambda: [*map(Constant, x)])
        if kind in (tuple, list) or is_named_tuple(kind):
            return self._owner(source, x, self._wrap_sequence)
        if kind is dict and all(type(k) in KEY_TYPES for k in x):
            return self._owner(source, x, self._wrap_dict)
        is_set = kind in (set, frozenset) and len(x) <= LONGEST and [*x] == [*x.copy()]
        if is_set and all(type(k) in KEY_TYPES for k in x) and not self._changes(source, x):
            return self._owner(source, x, self._wrap_set)
        if kind is slice:
            self.guard(OfType(source, builtin(slice)))
            return SliceValue(*(Lazy(source.attribute(part), getattr(x, part)) for part in ("start", "stop", "step")))
        if kind is types.MethodType and isinstance(x.__func__, types.FunctionType):
            self.guard(OfType(source, self.object_of(kind)))
            function = self.realize(Lazy(source.attribute("__func__"), x.__func__))
            return Method(Lazy(source.attribute("__self__"), x.__self__), function, x.__func__.__name__)
        return self._owner(source, x, self._wrap_other)

    def _owner(self, source: Source, x: Any, wrap: Callable[[Source, Any], Any]) -> Any:
        """Of an object that can be changed there is one value, so that all its readers see what the program changes."""
        if isinstance(x, (tuple, frozenset)):
            return wrap(source, x)
        known = self.owners.get(id(x))
        if known is not None:
            self.guard(Is(source, known.source))
            return known
        value = self.owners[id(x)] = wrap(source, x)
        for other in self.changed.values():
            self.guard_apart(value, other)
        return value

    def require_distinct(self, owner: Any) -> None:
        """`owner` is changed: whatever else was met is another object."""
        if id(owner) not in self.changed:
            self.changed[id(owner)] = owner
            for other in self.owners.values():
                self.guard_apart(owner, other)

    def _wrap_function(self, source: Source, x: types.FunctionType) -> Opaque:
        """One of the same code is the same program, with cells and defaults of its own."""
        self.guard(OfType(source, self.object_of(type(x))))
        original = x.__dict__.get("__npcompile_original__")  # of a compiled one, whose own code changes
        is_replaced = is_global(source) and original is None  # by text that was edited: it does not come back
        if not is_replaced and self.is_new("code of", source, x.__code__ if original is None else original):
            self.varying.add(source)
        elif original is not None:
            self.guard(Is(source.attribute("__npcompile_original__"), self.object_of(original)))
        else:
            for guard in of_function(source, x, self.object_of):
                self.guard(guard)
        return Opaque(source, x)

    def _wrap_sequence(self, source: Source, x: Any) -> OutsideSequence:
        kind = type(x)
        self.guard(OfType(source, builtin(kind) if kind in (tuple, list) else self.object_of(kind)))
        return OutsideSequence(kind, source, lambda: self._items(source, x), x)

    def _wrap_range(self, source: Source, x: Any) -> RangeValue:
        """Its ends are integers as others from outside; a start at 0 and the step are fixed."""
        first, step = source.attribute("start"), source.attribute("step")
        is_from_zero = Is(Compared(first, "==", Literal(0)), Literal(x.start == 0))
        self.guard(All((OfType(source, builtin(range)), Equals(step, Literal(x.step)), is_from_zero)))
        start = self.read(first, x.start) if x.start else Constant(0)
        return RangeValue(start, self.read(source.attribute("stop"), x.stop), x.step, source)

    def _wrap_dict(self, source: Source, x: Any) -> Mapping:
        def guard_keys() -> None:
            if len(x) > LONGEST:
                raise Decline("the keys of a long dict")
            keys = [*x]
            if self.is_new("keys of", source, tuple(keys)):
                raise Decline("the keys of a dict that change from call to call")
            self.guard(Keys(source, Literal(keys)))
            self.guard_key_types(source, keys)

        self.guard(OfType(source, builtin(dict)))
        return OutsideMapping(source, guard_keys, x)

    def has_key(self, value: Mapping, key: Any) -> bool:
        """Is there an item? Of a dict from outside that alone is guarded."""
        if not isinstance(value, OutsideMapping) or value.is_loaded or type(key) not in KEY_TYPES:
            return key in value.items
        is_there = key in value.example
        assert value.source is not None
        self.guard(HasKey(value.source, Literal(key), is_there))
        return is_there

    def item(self, value: Mapping, key: Any, default: Any = None) -> Any:
        """The item under the key, if there is one."""
        if not self.has_key(value, key):
            return default
        return value.known(key) if isinstance(value, OutsideMapping) and not value.is_loaded else value.items[key]

    def _wrap_set(self, source: Source, x: Any) -> SetValue:
        self.guard(OfType(source, builtin(type(x))))  # first: an iterator would be spent by the next
        self.guard_key_types(source, x)
        self.guard(Equals(source, self.object_of(x.copy())))
        return SetValue(x.copy(), source)

    def _changes(self, source: Source, x: Any) -> bool:
        """Was a set met here with other members, twice? Then it grows from call to call, and no members are assumed."""
        return self.is_new("members of", source, frozenset(x), 2)

    def _wrap_other(self, source: Source, x: Any) -> Opaque:
        self.guard(OfType(source, self.object_of(type(x))))
        return Opaque(source, x)

    def _items(self, source: Source, x: list[Any] | tuple[Any, ...]) -> list[Any]:
        if len(x) > LONGEST:
            raise Decline(f"the items of a long {type(x).__name__}")
        if self.is_new("length of", source, len(x)):
            raise Decline(f"the items of a {type(x).__name__} whose length changes from call to call")
        self.guard(Length(source, "==", len(x)))
        return [Lazy(source.item(i), item) for i, item in enumerate(x)]

    def length_of_long(self, value: Any) -> Any:
        source = Call(builtin(len), value.source)
        if source not in self.realized:
            name = self.bind(source, len(value.example), MOST_FORMS)
            self.guard(compared(Bound(name), ">", Literal(LONGEST)))
            self.realized[source] = self.builder.env.symbol(name, len(value.example), at_least=LONGEST + 1)
        return self.realized[source]

    def item_of_long(self, value: OutsideSequence, index: int) -> Lazy:
        """One that it has: no more than that is guarded."""
        assert value.source is not None
        self.guard(Length(value.source, ">" if index >= 0 else ">=", abs(index)))
        return Lazy(value.source.item(index), value.example[index])

    def cell(self, source: Source, real: types.CellType) -> Cell:
        """A cell that exists outside: one Cell for one real cell, so that all its readers see its writes."""
        known = self.cells.get(id(real))
        if known is not None:
            if known.source is not None and known.source != source:
                self.guard(Is(source, known.source))
            return known
        for other in self.cells.values():
            if other.source is not None:
                self.guard(Is(source, other.source, False))
        try:
            name = f"c{len(self.cells)}"
            content: Any = Lazy(Bound(name), real.cell_contents)
            self.guard(Keeps(source.attribute("cell_contents"), name))  # read before the program writes the cell
        except ValueError:
            content = None
        self.cells[id(real)] = Cell(content, source)
        return self.cells[id(real)]

    def _wrap_array(self, source: Source, x: Any, owner: Source | None = None) -> Array | Opaque:
        """`owner` is the source of the Tensor that holds the array, if one does."""
        device = array_kind(type(x))
        is_of_type = OfType(source, self.object_of(type(x)))
        if not is_number(x.dtype):
            dtype = Formula("({0}.char, {0}.isnative)", source.attribute("dtype"))
            self.guard(All((is_of_type, Equals(dtype, Literal((x.dtype.char, x.dtype.isnative))))))
            return Opaque(source, x)
        if device is None and (usable := x.flags.num & USABLE) != ALIGNED:
            self.guard(All((is_of_type, Flags(source, USABLE, usable))))
            return Opaque(source, x)
        known = self.by_identity.get(id(x))
        if known is not None:
            self.guard(Is(source, known[0]))
            return known[1]
        self.guard(All((is_of_type, OfDType(source, self.object_of(x.dtype), x.dtype is np.dtype(x.dtype.type)))))
        if device is None:
            flags = x.flags.num & ARRAY_FLAGS
            self.guard(Flags(source, ARRAY_FLAGS, flags))
            boxed, writeable = True, bool(flags & WRITEABLE)
        else:
            boxed = self._guard_device(source, x, device, owner)
            writeable = boxed and not is_repeated(x)
        shape, strides = self.sizes_of(source, x)
        meta = TensorMeta(shape, x.dtype, strides, boxed=boxed, writeable=writeable)
        storage = Storage(self.builder.root, self.builder.input(meta, source), meta, source)
        array = Array(storage, (), meta)
        self.by_identity[id(x)] = (source, array)
        self.examples[source] = x
        if any(s.is_written for _, a in self.by_identity.values() if (s := a.storage) is not storage):
            self.require_no_overlap()
        return array

    def _guard_device(self, source: Source, x: Any, kind: ArrayKind, owner: Source | None) -> bool:
        """Place the program where the array is. Is it an array, not what stands for a NumPy scalar?"""
        number = kind.number(x)
        if not is_on_device(x):  # nothing has asked for Tensors on this kind of device before
            open_kind(kind.device)
        self.guard(Equals(Formula(kind.number_text, source), Literal(number)))
        self.guard(Truth(Formula(kind.contiguous_text, source), bool(x.flags.c_contiguous)))
        self.on_device[source] = owner or source
        place = Place(kind.device, number, True)
        if self.place is not None and self.place.name != place.name:
            others = [o for s, o in self.on_device.items() if s != source]
            raise MixedDevices(
                f'{owner or source} is on "{place.name}", and {others[0] if others else "what it meets"} on '
                f'"{self.place.name}" ({self.builder.location}): arrays of one program are on one device. '
                f'Move one of them there, as x.to("{self.place.name}") does with a Tensor.'
            )
        if self.makes_on_cpu:
            raise Decline(f"a Tensor made on the CPU, in a program whose arrays are on {place.name}", "Name its device.")
        self.place = replace(place, gives_arrays=not owner or (self.place is not None and self.place.gives_arrays))
        for tensor, (_, example) in self.tensors.items():
            self._require_one_device(tensor, example)
        if x.ndim:
            return True
        scalar = is_scalar(x)
        self.guard(Is(Call(self.object_of(is_scalar), source), Literal(scalar)))
        return not scalar

    def _require_one_device(self, source: Source, x: Tensor) -> None:
        """As eager Tensors: those of the CPU do not meet those of a device, single numbers apart."""
        if self.place is not None and type(x._data) is np.ndarray and x.ndim:
            raise MixedDevices(
                f'{source} is a Tensor on "cpu", and it meets arrays on "{self.place.name}" ({self.builder.location}). '
                f'Move it there with {source}.to("{self.place.name}").'
            )

    def _wrap_tensor(self, source: Source, x: Tensor) -> TensorValue | Opaque:
        known = self.tensors_by_identity.get(id(x))
        if known is not None:
            assert known.source is not None
            self.guard(Is(source, known.source))
            return known
        self.guard(OfType(source, self.object_of(Tensor)))
        if not self.tensors:
            self.guard(Is(Call(self.object_of(is_grad_enabled)), Literal(self.grad_enabled_outside)))
        self._require_one_device(source, x)
        array = self._wrap_array(source.attribute("_data"), x._data, source)
        if isinstance(array, Opaque):
            return Opaque(source, x)
        if x.requires_grad:
            is_leaf = Is(source.attribute("is_leaf"), Literal(x.is_leaf))
            self.guard(All((Truth(source.attribute("requires_grad")), is_leaf)))
            array = array.view("variable", Variable(str(source)), array.meta)
        else:
            self.guard(Truth(source.attribute("requires_grad"), False))
        made = TensorValue(array, source, x.requires_grad, x.is_leaf)
        self.tensors[source] = made, x
        self.tensors_by_identity[id(x)] = self.tensors_by_array[id(array)] = made
        return made

    # --- Tensors that require a gradient

    def leaves(self) -> list[TensorValue]:
        """Tensors from outside that require a gradient."""
        return [t for t, _ in self.tensors.values() if t.requires_grad]

    def uses_of_leaves(self) -> list[Node]:
        return [use for t in self.leaves() for use in t.variable.uses]

    # --- writes to outside arrays

    def require_no_overlap(self) -> None:
        """A written outside array must share no memory with another array that is read: guarded, or declined."""
        self.require_no_gradient_written()
        arrays = list(self.by_identity.values())
        written = [source for source, array in arrays if array.storage.is_written]
        sources = [*written, *(source for source, array in arrays if not array.storage.is_written)]
        if not written or (len(written), sources) == self.disjoint[1]:
            return
        for k, source in enumerate(written):
            if overlaps_itself(self.examples[source]):
                raise Decline(f"{source} is written, and elements of it share memory", "Write to a copy.")
            for other in sources[k + 1 :]:
                if (source in self.on_device) is (other in self.on_device) and not self.are_apart(source, other):
                    raise Decline(f"{source} is written and may share memory with {other}")
        if self.disjoint[0] is not None:
            self.builder.env.guards.pop(self.disjoint[0], None)
        asked: list[Guard] = []
        for ask, there in ((self.object_of(OVERLAP).attribute("are_disjoint"), False), (self.object_of(are_disjoint), True)):
            chosen = [s for s in sources if (s in self.on_device) is there]
            count = sum(s in written for s in chosen)
            if count:
                asked.append(Truth(Call(ask, Literal(count), *chosen)))
        guard = asked[0] if len(asked) == 1 else All(tuple(asked))
        self.disjoint = guard, (len(written), sources)
        self.guard(guard)

    def are_apart(self, source: Source, other: Source) -> bool:
        x, y = self.examples[source], self.examples[other]
        return are_disjoint(1, x, y) if source in self.on_device else not np.may_share_memory(x, y)

    def require_no_gradient_written(self) -> None:
        """A Tensor from outside into which a gradient is written belongs to the graph of its own memory from then on."""
        if not self.grad_enabled or not self.leaves():
            return
        written = [t.array.storage.node for t, _ in self.tensors.values() if t.array.storage.is_written]
        if not depending(topological(written), self.uses_of_leaves()).isdisjoint(written):
            raise Decline("what requires grad is written into a Tensor from outside", "Make a new Tensor.")

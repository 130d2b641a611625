"""Values as expressions of the generated program. What can be changed gets a variable, so that it stays one object."""

from __future__ import annotations

import collections
import functools
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from npcompile.numpy_shim.objects import ShimObject
from npcompile.tensor_core.array import Array, Storage, view_text
from npcompile.tensor_core.dim import Dim
from npcompile.tensor_core.guards import HasKey
from npcompile.tensor_core.meta import Decline
from npcompile.tensor_core.number import Integer, Number
from npcompile.tensor_core.source import GLOBALS, Item, Literal, Source
from npcompile.tensor_core.tensor import Tensor, enable_grad, from_numpy, lost, no_grad
from npcompile.tracer.capture import Capture
from npcompile.tracer.constant_kinds import LONGEST_INTEGER
from npcompile.tracer.host_fallback import flags_of
from npcompile.tracer.python.arithmetic import plain_number
from npcompile.tracer.python.class_attributes import is_hidden
from npcompile.tracer.rebuilding import (
    changed_set,
    ended,
    fill_object,
    iterator_after,
    iterator_at,
    make_function,
    maker_of,
    maker_of_iterator,
    reversed_at,
)
from npcompile.tracer.restarts import Break, Restart
from npcompile.tracer.values import (
    UNASSIGNED,
    ArrayFlags,
    ArrayFlat,
    ArrayMethod,
    Cell,
    Closure,
    Comparison,
    Constant,
    Converted,
    Deque,
    DictView,
    ErrorState,
    ExceptionValue,
    GradMode,
    Iterator,
    Lazy,
    Mapping,
    Method,
    Opaque,
    Partial,
    PythonNumber,
    RangeValue,
    Record,
    Sequence,
    SetValue,
    SliceValue,
    Super,
    TensorMethod,
    TensorValue,
    Text,
    TracebackValue,
    Transform,
    Truth,
    children,
)

INLINE_CONSTANTS = (type(None), bool, int, str)


@dataclass(slots=True, eq=False)
class ValueTexts:
    """Turns values into expressions, and the lines that make what these name."""

    capture: Capture
    name_constant: Callable[[Any], str]
    lines: list[str] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)  # id of a value -> the variable that holds it
    kept: list[Any] = field(default_factory=list)  # those values, so that ids stay theirs
    storages: dict[int, str] = field(default_factory=dict)  # id of a fresh storage -> the variable of its array
    tensors: dict[int, TensorValue] = field(default_factory=dict)  # id of a fresh storage -> a Tensor that has it

    def text(self, value: Any) -> str:
        """An expression for the value. Mutable objects get a variable, so that they stay one object."""
        known = self.names.get(id(value))
        if known is not None:
            return known
        match value:
            case Lazy() | Opaque():
                match value.source:
                    case Item(owner, Literal(str() as name)) if (
                        owner == GLOBALS
                    ):  # of which nothing else may be asked: it may be gone
                        self.capture.guard(HasKey(GLOBALS, Literal(name)))
                return str(value.source)
            case Constant(ShimObject(maker=make) as made) if make is not None:
                return self.variable(value, f"{self.name_constant(make)}({', '.join(map(self.text, made.made_of))})")
            case Constant():
                return self.constant_text(value)
            case Dim():
                return str(value)
            case Number() | Integer():
                return str(value.source)
            case Array():
                return self.array_text(value)
            case Sequence() | Mapping() | SetValue() if is_unchanged(value):
                return str(value.source)
            case Sequence():
                return self.sequence_text(value)
            case Deque():
                return self.variable(
                    value, f"{self.name_constant(collections.deque)}([{', '.join(map(self.text, value.items))}])"
                )
            case Mapping():
                name = self.variable(value, "{}")
                for key, item in value.items.items():
                    self.lines.append(f"{name}[{self.constant_text(Constant(key))}] = {self.text(item)}")
                return name
            case Record():
                make, kind, fill = map(self.name_constant, (object.__new__, value.kind, fill_object))
                name = self.variable(value, f"{make}({kind})")
                if value.items:
                    items = ", ".join(f"{k!r}: {self.text(v)}" for k, v in value.items.items())
                    hidden = [k for k in value.items if is_hidden(value.kind, k)]
                    self.lines.append(f"{fill}({name}, {{{items}}}{f', {hidden}' if hidden else ''})")
                return name
            case SetValue():
                return self.set_text(value)
            case DictView():
                return self.variable(value, f"{self.text(value.owner)}.{value.kind}()")
            case Text() | Comparison():
                return str(value.source)
            case Partial():
                given = [*map(self.text, value.positional), *(f"**{{{k!r}: {self.text(v)}}}" for k, v in value.keywords.items())]
                return self.variable(value, f"{self.name_constant(value.kind)}({', '.join(given)})")
            case Super():
                return f"super({self.name_constant(value.after)}, {self.text(value.owner)})"
            case SliceValue():
                return f"slice({self.text(value.start)}, {self.text(value.stop)}, {self.text(value.step)})"
            case RangeValue():
                if value.source is not None:
                    return str(value.source)
                return f"range({self.text(value.start)}, {self.text(value.stop)}, {value.step})"
            case Iterator():
                return self.variable(value, self.iterator_text(value))
            case PythonNumber():
                return f"{value.kind.__name__}({self.text(value.array)})"
            case Truth():
                return f"{'not ' if value.negated else ''}bool({self.text(value.array)})"
            case Converted():
                return self.variable(value, f"{self.text(value.array)}.{value.method}()")
            case ArrayMethod():
                return f"{self.text(value.owner)}.{value.name}"
            case ArrayFlags():
                flagged = self.text(value.owner)
                is_here = self.capture.place is None
                return self.variable(value, f"{flagged}.flags" if is_here else f"{self.name_constant(flags_of)}({flagged})")
            case ArrayFlat():
                return self.variable(value, f"{self.text(value.owner)}.flat")
            case Method(owner, (Constant(types.FunctionType()) | Opaque(_, types.FunctionType()) | Closure()) as function):
                return f"{self.name_constant(types.MethodType)}({self.text(function)}, {self.text(owner)})"
            case Method(owner, Constant(types.WrapperDescriptorType()) as function):
                return f"{self.text(function)}.__get__({self.text(owner)})"
            case Method():
                return f"{self.text(value.owner)}.{value.name}"
            case ErrorState():
                settings = ", ".join(f"{k}={v!r}" for k, v in value.settings.items())
                return f"{self.name_constant(np.errstate)}({settings})"
            case TensorValue():
                return self.tensor_text(value)
            case TensorMethod():
                return f"{self.text(value.owner)}.{value.name}"
            case GradMode():
                return f"{self.name_constant(enable_grad if value.enabled else no_grad)}()"
            case Transform():
                return self.variable(value, self.transform_text(value))
            case TracebackValue():
                return self.text(value.error)  # which was raised: captured again
            case ExceptionValue():
                self.require_unraised(value)
                arguments = ", ".join(map(self.text, value.arguments))
                return self.variable(value, f"{self.name_constant(value.kind)}({arguments})")
            case Cell():
                return self.new_cell(value) if value.source is None else str(value.source)
            case Closure():
                text = self.closure_text(value)
                known = self.names.get(id(value))  # a cell of its own has made it already
                return known or self.decorated(self.variable(value, text), value)
            case _ if value is UNASSIGNED:
                return "UNBOUND"
            case _:
                raise Decline(f"a {type(value).__name__} cannot be handed over")

    def require_unraised(self, value: ExceptionValue) -> None:
        """One that was raised and is kept has a traceback: it is raised natively, in the next attempt."""
        if value.raised_at is not None:
            assert value.location is not None
            reason = Break("an exception that was caught is kept", "It has a traceback.", value.location)
            self.capture.decisions.stops[value.raised_at] = reason
            raise Restart

    def variable(self, value: Any, expression: str) -> str:
        name = f"v{len(self.names)}"
        self.names[id(value)] = name
        self.kept.append(value)
        self.lines.append(f"{name} = {expression}")
        return name

    def constant_text(self, constant: Constant) -> str:
        value = constant.value
        if type(value) in INLINE_CONSTANTS and not (type(value) is int and value.bit_length() > LONGEST_INTEGER):
            return repr(value)
        return self.name_constant(value)

    def array_text(self, array: Array) -> str:
        storage = array.storage
        base = str(storage.source) if storage.source is not None else self.storages[id(storage)]
        if not array.steps:
            return base
        return self.variable(array, view_text(base, array.steps))

    def tensor_text(self, value: TensorValue) -> str:
        """The Tensor itself, or one that sees the memory of one: its views know where gradients go."""
        if value.source is not None:
            return str(value.source)
        storage, steps = value.array.storage, value.array.steps
        kinds = {step.kind for step in steps}
        if storage.source is None:
            base = self.names.get(id(storage)) or self.new_tensor(storage, value)
            is_constant, is_base = "constant" in kinds, value is self.tensors.get(id(storage))
        elif (owner := self.capture.tensor_of(storage, steps)) is not None:
            base, is_constant, is_base = owner, "variable" not in kinds or "constant" in kinds, False
        else:
            base, is_constant, is_base = self.around(storage.source), False, True
        made = view_text(base, steps)
        if is_constant:
            made = f"{made}.detach()"
        elif made == base and not is_base:  # another Tensor of this memory
            made = f"{base}[...]"
        message = None if is_constant else self.capture.why_lost(storage.node)
        if message is not None:
            made = f"{self.name_constant(lost)}([{made}._data], {self.name_constant(message)})[0]"
        return self.variable(value, made)

    def around(self, source: Source) -> str:
        """A Tensor of the memory of an array from outside."""
        if source in self.capture.on_device:
            return f"{self.name_constant(Tensor)}._of({source})"
        return f"{self.name_constant(from_numpy)}({source})"

    def new_tensor(self, storage: Storage, value: TensorValue) -> str:
        """A Tensor without a gradient around a result of the graph."""
        return self.variable(storage, f"{self.name_constant(Tensor)}._of({self.storages[id(storage)]})")

    def result_text(self, value: Any) -> str:
        """The same for a function's result: nothing else holds a tuple that is made for it."""
        is_made = isinstance(value, Sequence) and id(value) not in self.names and not is_unchanged(value)
        return self.sequence_text(value, is_once=True) if is_made else self.text(value)

    def sequence_text(self, value: Sequence, is_once: bool = False) -> str:
        if value.kind is list and holds(value, value):
            name = self.variable(value, "[]")
            self.lines.append(f"{name}.extend(({''.join(f'{self.text(item)}, ' for item in value.items)}))")
            return name
        items = [self.text(item) for item in value.items]
        if value.kind is tuple:
            text = f"({''.join(f'{item}, ' for item in items)})"
            return self.variable(value, text) if items and not is_once else text
        if value.kind is not list:
            return self.variable(value, f"{self.name_constant(value.kind)}({', '.join(items)})")
        return self.variable(value, f"[{', '.join(items)}]")

    def set_text(self, value: SetValue) -> str:
        if isinstance(value.items, frozenset):
            return self.name_constant(value.items)
        made = value.maker or maker_of(value.items)
        if made is None:
            raise Decline("a set in whose order there is more than its members")
        make, given = map(self.name_constant, made)
        text = f"{make}({given})"
        if value.changes:
            text = f"{self.name_constant(changed_set)}({text}, {self.name_constant((*value.changes,))})"
        return self.variable(value, text)

    def iterator_text(self, iterator: Iterator) -> str:
        k = iterator.position
        if iterator.is_exhausted:
            return f"{self.name_constant(ended)}({self.name_constant(maker_of_iterator(iterator))})"
        match iterator.kind:
            case "range":
                span = iterator.parts[0]
                start = plain_number(span.start) + k * span.step
                return f"iter(range({start}, {self.text(span.stop)}, {span.step}))"
            case "sequence" if len(iterator.parts) > 1:
                return f"{self.name_constant(iterator_after)}({self.text(iterator.parts[1])}, {k})"
            case "sequence" | "array":
                return f"{self.name_constant(iterator_at)}({self.text(iterator.parts[0])}, {k})"
            case "reversed":
                return f"{self.name_constant(reversed_at)}({self.text(iterator.parts[0])}, {iterator.start - k})"
            case "enumerate":
                return f"enumerate({self.text(iterator.parts[0])}, {iterator.start + k})"
            case "zip" | "map" | "filter":
                return f"{iterator.kind}({', '.join(map(self.text, iterator.parts))})"
            case "reversed view":
                return f"{self.name_constant(iterator_after)}(reversed({self.text(iterator.parts[0])}), {k})"
            case "view" | "set":
                return f"{self.name_constant(iterator_after)}({self.text(iterator.parts[0])}, {k})"
            case "lazy":
                function, *arguments = map(self.text, iterator.parts)
                return f"{function}({', '.join(arguments)})"
            case kind:
                raise Decline(f"an iterator of kind {kind} cannot be handed over")

    def transform_text(self, transform: Transform) -> str:
        make, options = self.name_constant(Transform.outside), self.name_constant(transform.options)
        return f"{make}({transform.kind!r}, {self.text(transform.function)}, {options})"

    def new_cell(self, cell: Cell) -> str:
        """A cell that knows its content afterwards: a function may be in a variable of its own."""
        name = self.variable(cell, f"{self.name_constant(types.CellType)}()")
        if cell.content is not None:
            self.lines.append(f"{name}.cell_contents = {self.text(cell.content)}")
        return name

    def decorated(self, name: str, closure: Closure) -> str:
        """The function with the attributes that it was given."""
        for key, value in closure.attributes.items():
            if key == "__wrapped__" and closure.is_renamed:
                self.lines.append(f"{self.name_constant(functools.update_wrapper)}({name}, {self.text(value)})")
            else:
                self.lines.append(f"{name}.{key} = {self.text(value)}")
        return name

    def closure_text(self, closure: Closure) -> str:
        cells = "".join(f"{self.text(c)}, " for c in closure.cells)
        parts = [
            self.name_constant(closure.code),
            str(closure.globals_source or self.name_constant(closure.globals)),
            repr(closure.code.co_name),
            "None" if closure.defaults is None else self.text(closure.defaults),
            f"({cells})",
            "None" if closure.kwdefaults is None else self.text(closure.kwdefaults),
            "()" if closure.annotations is None else self.text(closure.annotations),
        ]
        return f"{self.name_constant(make_function)}({', '.join(parts)})"


def is_unchanged(value: Any) -> bool:
    """Is this still the object from outside that it came as?"""
    return isinstance(value, (Sequence, Mapping, SetValue)) and value.source is not None


def holds(value: Any, item: Any, seen: tuple[int, ...] = ()) -> bool:
    """Is `item` somewhere in a value that is made of others?"""
    if id(value) in seen or is_unchanged(value):
        return False
    return any(v is item or holds(v, item, (*seen, id(value))) for v in children(value))

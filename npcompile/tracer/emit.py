"""The generated program of one variant: readable Python that runs the graph and hands over what is live."""

from __future__ import annotations

import collections
import functools
import keyword
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from npcompile.backends.registry import CompiledGraph, may_not_return
from npcompile.numpy_shim.objects import ShimObject
from npcompile.tensor_core.array import Array, Storage, view_text
from npcompile.tensor_core.dim import Dim
from npcompile.tensor_core.float_errors import may_report
from npcompile.tensor_core.graph import Graph, Node, subgraphs, topological
from npcompile.tensor_core.guards import HasKey
from npcompile.tensor_core.meta import Decline, TupleMeta
from npcompile.tensor_core.number import Integer, Number
from npcompile.tensor_core.op import OPS
from npcompile.tensor_core.ops.whole import LEAST
from npcompile.tensor_core.source import GLOBALS, Item, Literal, Source
from npcompile.tensor_core.tensor import Tensor, enable_grad, from_numpy, lost, no_grad
from npcompile.tensor_core.transforms.reverse import depending
from npcompile.tensor_core.transforms.stand_in import made_of_stand_ins
from npcompile.tracer.arrays.backward import attach_backward
from npcompile.tracer.arrays.lost import message_of, remember_lost
from npcompile.tracer.capture import Capture
from npcompile.tracer.constant_kinds import LONGEST_INTEGER
from npcompile.tracer.decisions import Break, Restart
from npcompile.tracer.joining import require_unseen
from npcompile.tracer.known import remember_scalar
from npcompile.tracer.on_host import as_numpy, flags_of
from npcompile.tracer.python.arithmetic import plain_number
from npcompile.tracer.python.class_attributes import is_hidden
from npcompile.tracer.python.effects import Effect
from npcompile.tracer.python.iteration import is_as_made
from npcompile.tracer.random_state import Repetition, restore
from npcompile.tracer.rebuilding import (
    ended_generator,
    ended_text,
    fill_object,
    iterator_after,
    iterator_at,
    make_function,
    reversed_at,
)
from npcompile.tracer.values import (
    NULL,
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
    Generator,
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
class Emitter:
    """Turns values into expressions of the generated program."""

    capture: Capture
    name_constant: Callable[[Any], str]
    lines: list[str] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)  # id of a value -> the variable that holds it
    kept: list[Any] = field(default_factory=list)  # those values, so that ids stay theirs
    storages: dict[int, str] = field(default_factory=dict)  # id of a fresh storage -> the variable of its array
    tensors: dict[int, TensorValue] = field(default_factory=dict)  # id of a fresh storage -> a Tensor that has it
    made: list[Storage] = field(default_factory=list)  # fresh storages
    saved: list[str] = field(default_factory=list)  # variables of what the backward graph needs

    def forget(self) -> None:
        """Let go of the values of this call."""
        for held in (self.names, self.kept, self.tensors, self.made):
            held.clear()

    # --- the graph

    def graph_of(self, values: Iterable[Any], name: str) -> Graph | None:
        """The graph that computes what `values` need and what is written to outside arrays; None when nothing is."""
        for storage in self.capture.draws.storages:
            if storage.is_written or self.capture.place is not None:
                storage.source = None  # what is handed over is a result of the graph, and not what was drawn
        unfinished = next((g for g in self.capture.begun if not g.is_exhausted), None)
        if unfinished is not None:
            raise BegunIterator(unfinished.made_at)
        fresh: dict[int, Storage] = {}
        seen: set[int] = set()
        pending = list(values)
        require_unseen(self.capture, pending)
        while pending:
            value = pending.pop()
            if id(value) in seen:
                continue
            seen.add(id(value))
            self.kept.append(value)
            if isinstance(value, ArrayFlat) and value.begun is not None:
                raise BegunIterator(value.begun)
            if isinstance(value, ExceptionValue):
                self.require_unraised(value)
            if isinstance(value, TensorValue) and value.array.storage.source is None:
                self.tensors.setdefault(id(value.array.storage), value)
            if isinstance(value, Array):
                if value.storage.source is None:
                    fresh.setdefault(id(value.storage), value.storage)
            elif isinstance(value, Iterator) and not is_as_made(value):
                raise BegunIterator(value.made_at)
            elif not (isinstance(value, (Sequence, Mapping, SetValue, Cell)) and is_unchanged(value)):
                pending.extend(children(value))
        storages = list(fresh.values())
        writes = [(s.original.params["index"], s.node) for s in self.written()]
        nodes = [s.node for s in storages]
        measured = self.capture.builder.measured
        unused = self.unused_that_may_raise([*nodes, *(node for _, node in writes), *measured.values()])
        if not storages and not writes and not unused and not measured:
            return None
        metas = [*(s.meta for s in storages), *(n.meta for n in unused)]
        graph = self.capture.builder.finish([*nodes, *unused], metas, writes, name)
        self.made = storages
        self.storages = {id(s): f"t{k}" for k, s in enumerate(storages)} | {id(n): f"unused_{k}" for k, n in enumerate(unused)}
        originals = [s.original for s in self.written()]
        return replace(graph, restored=frozenset(n.params["index"] for n in originals if self.is_read(n, nodes)))

    def is_read(self, original: Node, outputs: list[Node]) -> bool:
        """Does the program, run again, need what was in this input? Not where it is overwritten unseen."""
        contents = {original}  # with some of the old contents in them
        for node in self.capture.builder.made:
            if contents.isdisjoint(node.inputs):
                continue
            others = node.inputs[1:]
            is_overwritten = node.op == "slice_update" or (node.op == "scatter" and node.params["mode"] == "set")
            if not is_overwritten or not contents.isdisjoint(others):
                return True
            contents.add(node)
        return not contents.isdisjoint(outputs)

    def unused_that_may_raise(self, results: list[Node]) -> list[Node]:
        """Nodes that nothing uses and that raise, or report a floating-point error, for some data: NumPy would."""
        made = self.capture.builder.made
        used = set(topological(results)) | made_of_stand_ins(made)
        unused: dict[Node, None] = {}
        for node in reversed(made):
            if node not in used and (OPS[node.op].raises or self.reports_errors(node)):
                unused[node] = None
                used.update(topological([node]))
        # One of the results stands for an op that has several.
        return [self.capture.builder.apply("item", n, index=0) if isinstance(n.meta, TupleMeta) else n for n in unused]

    def reports_errors(self, node: Node) -> bool:
        """Not for the values that gradients did without, nor on a device, which has no flags to tell of errors."""
        capture = self.capture
        if node not in capture.builder.loud or capture.place is not None or capture.goes_through_gradients:
            return False
        return may_report(node)

    def written(self) -> list[Storage]:
        """Outside arrays that the program has changed."""
        arrays = (array for _, array in self.capture.by_identity.values())
        return [a.storage for a in arrays if a.storage.is_written]

    def call_graph(self, graph: Graph, compiled: CompiledGraph, function: str, native: str, point: str) -> None:
        """Call `compiled.quickest`, by the name `function`.

        `native` runs the same part of the program with NumPy: for errors, which it reports. `point` is where the program begins.
        """
        builder = self.capture.builder
        arguments = [*map(str, builder.arguments), *graph.symbols]
        measured = [name for name, _ in graph.measured if name not in compiled.counted]
        least = [f"measured_{len(graph.measured)}"] if compiled.counted else []
        results = compiled.targets([*self.storages.values(), *self.saved, *least, *measured])
        comment = f"  # {', '.join(map(str, graph.metas))}" if graph.metas else ""
        call = [f"{results}{function}({', '.join(arguments)}){comment}", *(f"holds = {name} >= {LEAST}" for name in least)]
        errors = ["FloatingPointSignal"] * bool(graph.checks)
        errors += sorted(e.__name__ if e.__module__ == "builtins" else self.name_constant(e) for e in raised_in(graph))
        if self.capture.place is None and (errors or not self.capture.draws.generators):  # a device says itself what it has
            # Of one that writes to an argument the graph says whether that was yet to come when memory was lacking.
            errors = list(dict.fromkeys([*errors, "FloatingPointSignal" if graph.writes else "MemoryError"]))
        if graph.checks and {index for index, _ in graph.writes} - graph.restored:
            # An error that ends the program may leave these arguments as they were, which is not known afterwards.
            self.lines += [f"if {self.name_constant(may_not_return)}():", f"    return {native}"]
        drawn_again = self.draw(native, bool(errors))
        if errors:
            # It is as if nothing had happened yet: NumPy runs the same part, and reports at the user's line. Not as part of
            # the handler: what is raised then has no context of ours.
            tried, known = [f"    {line}" for line in call], f"({', '.join(errors)},)"
            handler = [f"except {known}:"]
            if self.capture.place is None:
                assumed = self.capture.assumed
                told = f"{known}, {self.name_constant(tuple(assumed))}" if assumed else known
                handler = ["except Exception:", f"    if not {point}.may_run_again({told}):", "        raise"]
            self.lines += ["try:", *tried, *handler, *drawn_again, "    holds = False"]
        else:
            self.lines += call
        if errors or least:
            self.lines += ["if not holds:", f"    return {native}"]

    def draw(self, native: str, may_fail: bool = False) -> list[str]:
        """Draw the program's random numbers. What is done before `native` draws them again, when what follows has failed."""
        draws = self.capture.draws
        saved = ", ".join(f"({source}, state_{k})" for k, source in enumerate(draws.generators))
        if may_fail or draws.may_raise:
            self.lines += [f"state_{k} = {text}" for k, text in enumerate(draws.generators.values())]
        if draws.may_raise:
            again = [f"    {self.name_constant(restore)}({saved})"] if saved else []
            self.lines += ["try:", *(f"    {line}" for line in draws.lines), "except Exception:", *again, "    holds = False"]
            self.lines += ["if not holds:", f"    return {native}"]
        else:
            self.lines += draws.lines
        if not saved or not draws.lines:
            return []
        return [f"    with {self.name_constant(Repetition)}({saved}):", *(f"        {t}" for t in draws.lines)]

    def place_results(self, is_end: bool) -> None:
        """What a device computed: scalars are known for scalars, and at the end what is NumPy's goes to the host."""
        place = self.capture.place
        if place is None:
            return
        for storage in self.made:
            name = self.storages[id(storage)]
            if is_end and not place.gives_arrays and id(storage) not in self.tensors:
                self.lines.append(f"{name} = {self.name_constant(as_numpy)}({name}, {storage.meta.boxed})")
            elif not storage.meta.boxed:
                self.lines.append(f"{self.name_constant(remember_scalar)}({name})")

    def do_effects(self, effects: Iterable[Effect], live: Iterable[Any]) -> None:
        """Change objects from outside. What the program goes on with is read before: its expressions mean what was there."""
        effects = list(effects)
        for value in live if effects else ():
            if value is None or value is NULL or value is UNASSIGNED:
                continue
            known = self.text(value)
            if not known.isidentifier() and not (isinstance(value, Constant) and type(value.value) in INLINE_CONSTANTS):
                self.variable(value, known)
        for effect in effects:
            self.lines.append(effect.text.format(*map(self.text, effect.values)))

    def write_cells(self, cells: Iterable[Cell]) -> None:
        for cell in cells:
            if cell.is_written and cell.source is not None:
                self.lines.append(f"{cell.source}.cell_contents = {self.text(cell.content)}")

    # --- values

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
                known = self.name_constant(value.items.copy())
                return self.variable(value, f"{known}.copy()") if value.kind is set else known
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

    def attach(self, program: str, results: list[int], leaves: list[str], kept: list[str], symbols: list[str]) -> None:
        """Make the Tensors that have a gradient, of the storages with the ids `results`.

        `kept` are the Tensors whose contents the gradients need.
        """
        names = [f"tensor_{k}" for k in range(len(results))]
        outputs = [self.storages[key] for key in results]
        attach, given = (
            self.name_constant(attach_backward),
            (outputs, leaves, kept, [*map(str, self.capture.builder.arguments)], self.saved, symbols),
        )
        arguments = ", ".join(f"({''.join(f'{part}, ' for part in parts)})" for parts in given)
        self.lines.append(f"{', '.join(names)}, = {attach}({program}, {arguments})")
        self.names |= zip(results, names)

    def count_writes(self) -> None:
        """Tensors know how often their memory was written."""
        owners = [self.capture.tensor_of(storage) for storage in self.written()]
        self.lines += [f"{owner}._wrote()" for owner in owners if owner is not None]

    def write_gradients(self, gradients: dict[Source, Any]) -> None:
        for source, value in gradients.items():
            self.lines.append(f"{source}.grad = {self.text(value)}")

    def remember_lost(self, reason: Break, live: list[Any]) -> None:
        """Arrays that leave the graph at a break have lost their gradient, which is said when somebody asks for it."""
        leaves = self.capture.uses_of_leaves()
        if not leaves:
            return
        for value in live:
            if isinstance(value, Array) and id(value.storage) not in self.tensors:
                is_reached = value.storage.node in depending(topological([value.storage.node]), leaves)
                if is_reached:
                    message = self.name_constant(message_of(reason))
                    self.lines.append(f"{self.name_constant(remember_lost)}({self.text(value)}, {message})")

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

    def iterator_text(self, iterator: Iterator) -> str:
        k = iterator.position
        if iterator.is_exhausted and isinstance(iterator, Generator):
            return f"{self.name_constant(ended_generator)}()"
        if iterator.is_exhausted:
            return ended_text(iterator)
        match iterator.kind:
            case "range":
                span = iterator.parts[0]
                start = plain_number(span.start) + k * span.step
                return f"iter(range({start}, {self.text(span.stop)}, {span.step}))"
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


class BegunIterator(Exception):
    """An iterator is needed outside of the program, or sees how it is forgotten, that cannot be made there as it is.

    That is a generator that has given items, and an iterator over a container that the program has changed. `index` is the
    instruction that made it.
    """

    def __init__(self, index: int):
        self.index = index


def raised_in(graph: Graph) -> set[type[Exception]]:
    """What the operations of a graph raise for some data, those of the graphs in it too."""
    inside = [raised_in(part) for node in graph.nodes for part in subgraphs(node).values()]
    return {e for node in graph.nodes for e in OPS[node.op].raises}.union(*inside)


def holds(value: Any, item: Any, seen: tuple[int, ...] = ()) -> bool:
    """Is `item` somewhere in a value that is made of others?"""
    if id(value) in seen or is_unchanged(value):
        return False
    return any(v is item or holds(v, item, (*seen, id(value))) for v in children(value))


def parameter_name(local: str, slot: int) -> str:
    """What a local of the user's is called in the generated program."""
    return f"v_{local}" if local.isidentifier() and not keyword.iskeyword(local) else f"v_{slot}"

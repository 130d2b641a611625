"""The Python program that calls compiled pieces and NumPy in turn."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from npcompile.backends.cpu import nonzero, searches, small_matrices
from npcompile.backends.kernels.graph_partition import Piece
from npcompile.backends.registry import _DEFAULT_STATE, _ERROR_STATE, IGNORES_ALL, CompiledGraph, FloatingPointSignal
from npcompile.tensor_core.dim import Dim, same
from npcompile.tensor_core.graph import Bound, Graph, Node, bind, give_out, subgraphs, symbols_of
from npcompile.tensor_core.meta import TensorMeta, TupleMeta, contiguous_strides, is_packed
from npcompile.tensor_core.op import OPS
from npcompile.tensor_core.ops.extern import Unexpected
from npcompile.tensor_core.ops.movement import region
from npcompile.tensor_core.ops.numpy_calls import COUNTS, LEAST, Keywords, measured
from npcompile.tensor_core.ops.ufuncs import called

# Ops of one param as expressions of arrays, for speed: the others are called by their meaning in the op table.
SHORT = {"reshape": "{}.reshape({})", "permute": "{}.transpose({})", "item": "{}[{}]"}
# Functions that give one new array, C-contiguous, of a dtype that follows from the arguments', and meet no floating-point error:
# few elements take them less time than a state of errors and questions about what they gave.
PLAIN = frozenset([np.bincount])
# What meets no floating-point error whatever the numbers are.
SORTS = ("sort", "argsort", "partition", "argpartition", "lexsort", "searchsorted")
QUIET_OPS = frozenset([*SORTS, "argwhere", "item", "require_none", *COUNTS])
QUIET = PLAIN | {np.unique, np.repeat, np.packbits, np.unpackbits}
SET_SYMBOL = "symbols["  # how a statement begins that keeps a size for `bind`


class Host:
    """Prints the program, one statement for each step. `for_pieces` are the values that pieces take: C-contiguous.

    Where NumPy's bits are asked for, values stay as NumPy makes them, and a piece takes a copy of what lies in another way.
    """

    def __init__(self, graph: Graph, inside: dict[Graph, CompiledGraph], for_pieces: set[Node]):
        self.is_bitwise = graph.accuracy == "bitwise"
        self.graph, self.inside, self.for_pieces = graph, inside, set[Node]() if self.is_bitwise else for_pieces
        self.lines: list[str] = []
        self.names = {n: f"x{k}" for k, n in enumerate(graph.inputs)}
        self.fresh: set[Node] = set()  # values that nothing else holds
        self.contiguous: set[Node] = set()  # what compiled programs made: C-contiguous arrays
        self.namespace: dict[str, Any] = {
            "array": np.array,
            "asarray": np.asarray,
            "bind": bind,
            "give_out": give_out,
            "error_state": lambda: error_state(graph.checks),
            "set_state": _ERROR_STATE.set,
            "reset_state": _ERROR_STATE.reset,
            "FloatingPointSignal": FloatingPointSignal,
        }
        for node in graph.inputs:
            if node.meta.weak:
                self.lines.append(f"{self.names[node]} = asarray({self.names[node]}, {self.keep('dtype', node.dtype)})")

    def keep(self, prefix: str, value: Any) -> str:
        """A name of the program for an object."""
        name = f"{prefix}_{len(self.namespace)}"
        self.namespace[name] = value
        return name

    def variable(self, node: Node) -> str:
        return self.names.setdefault(node, f"t{len(self.names) - len(self.graph.inputs)}")

    # --- steps

    def call_numpy(self, nodes: Iterable[Node]) -> None:
        """Each node by its op's meaning in NumPy."""
        for node in nodes:
            self.lines += self.statements(node)

    def call_numpy_reporting(self, nodes: Sequence[Node]) -> None:
        """The same, where floating-point errors can be met: they are the graph's to report, not NumPy's here."""
        inner = [line for node in nodes for line in self.statements(node)]
        if all(is_branch(node) or is_quiet(node) for node in nodes):  # compiled graphs report their own
            self.lines += inner
        elif inner:
            self.lines += self.reporting(inner)

    def reporting(self, lines: list[str]) -> list[str]:
        """Statements whose floating-point errors are the graph's."""
        return [
            *("before = set_state(error_state())", "try:", *(f"    {line}" for line in lines)),
            *("except FloatingPointError:", "    raise FloatingPointSignal from None"),
            *("finally:", "    reset_state(before)"),
        ]

    def call_piece(self, piece: Piece, compiled: CompiledGraph) -> None:
        values = [self.taken(n, inner.meta) for n, inner in zip(piece.inputs, piece.graph.inputs)]
        arguments = [*values, *(f"symbol_{k}" for k in piece.symbols)]
        targets = compiled.targets([self.variable(n) for n in piece.outputs])
        self.lines.append(f"{targets}{self.keep('piece', compiled.quickest)}({', '.join(arguments)})")
        self.fresh.update(piece.outputs)
        self.contiguous.update(n for n, meta in zip(piece.outputs, piece.graph.metas) if is_packed(meta))

    def taken(self, node: Node, meta: TensorMeta) -> str:
        """A value as a piece takes it: with the strides of `meta`."""
        name = self.names[node]
        if node.op == "input" or node in self.for_pieces or node in self.fresh and node in self.contiguous:
            return name
        return (
            f"{self.keep('laid_out', laid_out)}({name}, {self.keep('dtype', meta.dtype)}, {self.bound('strides', meta.strides)})"
        )

    def measure(self, node: Node, symbol: str) -> None:
        """A node whose size data decides; from here on the symbol has that value."""
        lines = [line for i in node.inputs if i not in self.names for line in self.statements(i)]
        own = nonzero.form_of(node)
        if is_plain(node):
            self.lines += [*lines, *self.plain_call(node, self.graph.symbols.index(symbol))]
            return
        target = self.variable(node)
        params = {name: value for name, value in node.params.items() if name != "size"}
        arguments = [*(self.names[i] for i in node.inputs), *([f"**{self.bound('params', params)}"] if params else [])]
        number = self.graph.symbols.index(symbol)
        if node.op in COUNTS:  # nobody reads its rows
            count = self.keep(node.op, COUNTS[node.op])
            self.lines += [
                *lines,
                f"symbol_{number} = {count}({', '.join(arguments)})",
                f"{SET_SYMBOL}{symbol!r}] = symbol_{number}",
            ]
            return
        call = f"{target} = {self.keep(node.op, own or OPS[node.op].eager)}({', '.join(arguments)})"
        lines += [call] if is_quiet(node) else self.reporting([call])
        if not isinstance(node.meta, TupleMeta):
            self.fresh.add(node)
            if not own:
                lines.append(f"{target} = asarray({target}, order='C')")
        lines.append(f"symbol_{number} = {self.keep('measured', measured)}({target})")
        self.lines += [*lines, f"{SET_SYMBOL}{symbol!r}] = symbol_{number}"]

    def plain_call(self, node: Node, number: int) -> list[str]:
        """The same of a function that is one of PLAIN."""
        target, function = self.variable(node), node.params["function"]
        call = self.keep("bincount", partial(function.function, **dict(function.values)))
        symbol = f"symbol_{number}"
        lines = [f"{target} = {call}({', '.join(self.names[i] for i in node.inputs)})"]
        lines += [f"{symbol} = {target}.size", f"{SET_SYMBOL}{self.graph.symbols[number]!r}] = {symbol}"]
        return [*lines, f"if {symbol} < {LEAST}:", f"    raise {self.keep('unexpected', Unexpected)}"]

    def statements(self, node: Node) -> list[str]:
        lines = [line for i in node.inputs if i not in self.names for line in self.statements(i)]  # leaves
        if node.op == "item" and is_plain(node.inputs[0]):
            self.names[node] = self.names[node.inputs[0]]
            self.fresh.add(node)
            self.contiguous.add(node)
            return lines
        arguments = [self.names[i] for i in node.inputs]
        target = self.variable(node)
        if node.op == "cond":
            return [*lines, *self.branch(node, target)]
        if graphs := subgraphs(node):
            call = self.keep(node.op, self.with_graphs(node, graphs))
            lines.append(f"{target} = {call}(symbols, {', '.join(arguments)})")
        elif short := SHORT.get(node.op):
            (param,) = node.params.values()
            lines.append(f"{target} = {short.format(arguments[0], self.bound('param', param))}")
        elif (
            node.op == "slice"
            and node.inputs[0] in self.contiguous
            and not any(True for _ in symbols_of(tuple(node.params.values())))
        ):
            index = (*region(**bind(node.params, {})), ...)
            lines.append(f"{target} = {arguments[0]}[{self.keep('index', index)}]")
            return lines if node not in self.for_pieces else [*lines, f"{target} = asarray({target}, order='C')"]
        elif node.op == "ufunc" and not (isinstance(node.meta, TupleMeta) and node.meta.items[0].ndim == 0):
            made = f"{self.keep('ufunc', called(**node.params))}({', '.join(arguments)})"
            is_scalar = isinstance(node.meta, TensorMeta) and node.meta.ndim == 0
            lines.append(f"{target} = {f'asarray({made})' if is_scalar else made}")
        else:
            if node.params:
                arguments.append(f"**{self.bound('params', node.params)}")
            own = searches.form_of(node) or (None if self.is_bitwise else small_matrices.form_of(node))
            if own:
                self.fresh.add(node)  # what NumPy's functions give in doubt is as new
            lines.append(f"{target} = {self.keep(node.op, own or OPS[node.op].eager)}({', '.join(arguments)})")
        maker = node.inputs[0] if node.op == "item" else node
        is_made_by_graph = maker is not node and is_branch(node) and maker.params["true_graph"].metas[node.params["index"]].boxed
        if (
            is_made_by_graph
            or (OPS[maker.op].kind == "extern" and OPS[maker.op].stacks)
            or (maker is not node and is_checked(maker))
        ):
            self.fresh.add(node)  # NumPy's functions of stacks give new arrays too, others what `output` looks at
        if is_made_by_graph:
            self.contiguous.add(node)
        if is_made_by_graph:
            pass
        elif node in self.for_pieces:
            lines.append(f"{target} = asarray({target}, {self.keep('dtype', node.dtype)}, order='C')")
        elif is_checked(maker):
            pass
        elif node not in self.fresh and node.op not in ("reshape", "permute") and not isinstance(node.meta, TupleMeta):
            lines.append(f"{target} = asarray({target}, {self.keep('dtype', node.dtype)})")
        return lines

    def branch(self, node: Node, target: str) -> list[str]:
        """One of two compiled graphs, which take C-contiguous arrays."""
        predicate, *operands = (self.names[i] for i in node.inputs)
        arguments = [
            name if self.is_contiguous(operand) else f"asarray({name}, order='C')"
            for name, operand in zip(operands, node.inputs[1:])
        ]
        calls = []
        for graph in (node.params["true_graph"], node.params["false_graph"]):
            symbols = [f"symbol_{self.graph.symbols.index(s)}" for s in graph.symbols]
            calls.append(f"{self.keep('piece', self.inside[graph].call)}({', '.join([*arguments, *symbols])})")
        return [f"if {predicate}:", f"    {target} = {calls[0]}", "else:", f"    {target} = {calls[1]}"]

    def is_contiguous(self, node: Node) -> bool:
        """Is it known to be C-contiguous now? Not what NumPy made."""
        if node.op == "input":
            strides = contiguous_strides(node.meta.shape, node.meta.dtype.itemsize)
            return all(map(same, node.meta.strides, strides))
        return node in self.contiguous

    def bound(self, prefix: str, value: Any) -> str:
        """An expression for `value` at this call's sizes."""
        parts = tuple(value.values()) if isinstance(value, dict) else value
        if not any(True for _ in symbols_of(parts)):
            return self.keep(prefix, bind(value, {}))
        match value:
            case Dim():
                names = {name: f"symbol_{k}" for k, name in enumerate(self.graph.symbols)}
                return re.sub(r"[A-Za-z_]\w*", lambda found: names.get(found[0], found[0]), str(value))
            case tuple():
                return f"({''.join(f'{self.bound(prefix, part)}, ' for part in value)})"
            case dict():
                return f"{{{', '.join(f'{name!r}: {self.bound(name, part)}' for name, part in value.items())}}}"
        return f"bind({self.keep(prefix, value)}, symbols)"

    def with_graphs(self, node: Node, graphs: dict[str, Graph]) -> Any:
        """Control flow: the op's meaning, given its graphs compiled, and C-contiguous operands as those take them."""
        eager, inside = OPS[node.op].eager, self.inside

        def call(symbols: dict[str, int], *inputs: Any) -> Any:
            params = bind(node.params, symbols)
            for name, graph in graphs.items():
                params[name] = Bound.of(graph, inside[graph].call, symbols)
            return eager(*(np.asarray(x, order="C") for x in inputs), **params)

        return call

    # --- the end

    def finish(self) -> tuple[Any, str]:
        """The program, and its text."""
        graph = self.graph
        count = Counter(graph.outputs)
        for node in graph.results:
            if node not in self.names:
                self.lines += self.statements(node)  # leaves
        outputs = [self.output(n, meta, n in self.fresh and count[n] == 1) for n, meta in zip(graph.outputs, graph.metas)]
        found = dict(graph.measured)  # symbols that the program finds out, and gives out after the outputs
        outputs += [f"symbol_{graph.symbols.index(name)}" for name in found]
        self.lines.append(f"outputs = ({''.join(f'{o}, ' for o in outputs)})")
        # All contents are computed before any is written.
        copies = [f"contents_{k} = array({self.names[n]})" for k, (_, n) in enumerate(graph.writes)]
        self.lines += copies + [f"x{index}[...] = contents_{k}" for k, (index, _) in enumerate(graph.writes)]
        self.lines.append("return outputs")
        given = {k: name for k, name in enumerate(graph.symbols) if name not in found}
        arguments = [*(f"x{k}" for k in range(len(graph.inputs))), *(f"symbol_{k}" for k in given)]
        symbols = ", ".join(f"{name!r}: symbol_{k}" for k, name in given.items())
        lines = [f"symbols = {{{symbols}}}", *self.lines]
        if not any("symbols" in line for line in self.lines if not line.startswith(SET_SYMBOL)):  # nobody reads them
            lines = [line for line in self.lines if not line.startswith(SET_SYMBOL)]
        lines = [f"def call({', '.join(arguments)}):", *(f"    {line}" for line in lines)]
        text = "\n".join(lines)
        exec(compile(text, f"<npcompile {graph.name}, with NumPy>", "exec"), self.namespace)
        return self.namespace["call"], text

    def output(self, node: Node, meta: TensorMeta, is_fresh: bool) -> str:
        name = self.names[node]
        if not meta.boxed:
            return f"{name}[()]"
        if is_fresh and node.op == "item" and is_plain(node.inputs[0]):
            return name
        kept = self.keep("meta", meta)
        if is_fresh:
            strides = self.bound("strides", meta.strides)
            given = (
                [i for i in node.inputs[0].inputs if i in self.names] if node.op == "item" and is_checked(node.inputs[0]) else []
            )
            is_new = "".join(f" and {name} is not {self.names[i]}" for i in given)
            return f"{name} if {name}.strides == {strides} and {name}.base is None{is_new} else give_out({name}, {kept}, symbols)"
        if all(map(same, meta.strides, contiguous_strides(meta.shape, meta.dtype.itemsize))):
            return f"array({name}, order='C')"
        return f"give_out({name}, {kept}, symbols)"


def laid_out(value: Any, dtype: np.dtype, strides: tuple[int, ...]) -> np.ndarray:
    """The array, or a copy that has these strides along axes of more than one element."""
    x = np.asarray(value, dtype)
    if all(s == t or n < 2 for n, s, t in zip(x.shape, x.strides, strides)) and x.flags.aligned:
        return x
    axes = sorted(range(x.ndim), key=lambda axis: (-strides[axis], axis))
    return np.ascontiguousarray(x.transpose(axes)).transpose(np.argsort(axes)) if axes else x.copy()


def is_plain(node: Node) -> bool:
    """Is it a call of one of PLAIN?"""
    function = node.params.get("function")
    return node.op == "whole_sized" and isinstance(function, Keywords) and function.function in PLAIN


def is_quiet(node: Node) -> bool:
    """Does it meet no floating-point error?"""
    function = node.params.get("function")
    return node.op in QUIET_OPS or isinstance(function, Keywords) and function.function in QUIET


def is_checked(node: Node) -> bool:
    """Does its meaning look at the dtypes of what NumPy gave?"""
    return node.op in ("whole", "whole_sized")


def is_branch(node: Node) -> bool:
    """Is it `cond`, or a result of it?"""
    return node.op == "cond" or (node.op == "item" and node.inputs[0].op == "cond")


@lru_cache(maxsize=64)
def raising(errors: frozenset[str]) -> Any:
    """NumPy's error state that raises for these floating-point errors and ignores the others."""
    with np.errstate(**{"all": "ignore"} | dict.fromkeys(errors, "raise")):
        return _ERROR_STATE.get()


def error_state(checks: frozenset[str]) -> Any:
    """The state that finds the errors which the program must report now."""
    if not checks:
        return raising(checks)
    if _ERROR_STATE.get() is _DEFAULT_STATE:
        return raising(checks - {"under"})
    if IGNORES_ALL.holds():
        return raising(frozenset())
    state = np.geterr()
    return raising(frozenset(c for c in checks if state[c] != "ignore"))

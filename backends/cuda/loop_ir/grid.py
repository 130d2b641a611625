"""The statement printer of a grid of threads: all of them run what is not in a parallel loop, and share the iterations of these.

All threads compute the same numbers outside of parallel loops, and so take the same ways. One of them stores there. They meet at
a barrier between accesses of memory of which one is a store, where these are by different threads: after a parallel loop, and
before what stores if all have loaded. Iterations that fail set a word, which is looked at where all meet.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from npcompile.backends.cuda.loop_ir.target import CUDA
from npcompile.backends.loop_ir.c_text import CText, c, joined
from npcompile.backends.loop_ir.c_values import element_type, handed_over
from npcompile.backends.loop_ir.exits import Ways, side_exits, words_of
from npcompile.backends.loop_ir.statements import Statements
from npcompile.backends.loop_ir.target import Unsupported
from npcompile.tensor_core.events import moment
from npcompile.tensor_core.loop_ir.forms import walk
from npcompile.tensor_core.loop_ir.ops import (
    Again,
    Alloc,
    Break,
    Call,
    Cfg,
    Check,
    For,
    If,
    Load,
    LoopKind,
    Op,
    Program,
    Scope,
    SideExit,
    Store,
    While,
    Yield,
)
from npcompile.tensor_core.loop_ir.types import Memref

CONTROL = (If, For, While, Scope)
THREADS = 512  # of a block, at most


@dataclass(frozen=True, slots=True)
class GridText:
    """The text of the kernel `npc_loop`. Its arguments are words of 64 bits: where the status is, memory for arrays and its size,
    where the own arrays of all threads begin, and the words of the params."""

    lines: list[CText]
    ways: Ways
    words: int  # of the params
    meets: bool  # do all threads of the grid wait for each other?
    fails: bool  # may it end otherwise than by a Return?
    allocates: bool  # does it take memory for arrays of all threads?
    own: tuple[Alloc, ...]  # arrays that an iteration makes: each has memory for every thread


def print_grid(program: Program) -> GridText:
    """Raises Unsupported with the user's line."""
    moment("loop IR", program.name, subject=program)
    printer = GridStatements(program, CUDA, side_exits(program))
    printer.reports = False
    lines = printer.unit()
    return GridText(lines, printer.ways, printer.words, printer.meets, printer.fails, printer.allocates, tuple(printer.own))


@dataclass(slots=True)
class GridStatements(Statements):
    stored: bool = False  # may other threads have stored since all met?
    loaded: bool = False  # may other threads have yet to load what they loaded since?
    storing: list[bool] = field(default_factory=list)  # of the loops, arms and scopes around: is there a store inside?
    meets: bool = False
    fails: bool = False
    allocates: bool = False
    own: list[Alloc] = field(default_factory=list)

    @property
    def words(self) -> int:
        return sum(words_of(self.program.types[param.value]) for param in self.program.params)

    def head(self) -> Iterator[CText]:
        given = [*(c("char* own_{}", op.result) for op in self.own), *(c("npc_i64 a{}", k) for k in range(self.words))]
        yield c('extern "C" __global__ __launch_bounds__({})', THREADS)
        first = (c("npc_word* status"), c("char* arena"), c("npc_i64 room"))
        yield c("void npc_loop({}) {{", joined(", ", [*first, *given]))
        yield c("  const npc_i64 npc_thread = blockIdx.x * (npc_i64)blockDim.x + threadIdx.x;")
        yield c("  const npc_i64 npc_threads = gridDim.x * (npc_i64)blockDim.x;")
        yield c("  npc_word* const out = status + NPC_STATUS_WORDS;")
        yield c("  npc_word in[{}];", max(self.words, 1))
        for k in range(self.words):
            yield c("  in[{}].i = a{};", k, k)

    def leave(self, number: int) -> None:
        self.line("  if (npc_thread == 0) {{")
        for leaf in self.ways.found[number].leaves:
            self.lines += handed_over(leaf, self.name(leaf.value))
        self.line("  status[NPC_WAY].i = {};", number + 1)
        self.line("  }}")
        self.line("  return;")

    # --- where all threads meet

    def meet(self) -> None:
        """All threads wait for each other, if one may see what another stores or has stored."""
        if self.stored or self.loaded:
            self.line("  if (npc_meet(status)) return;")
            self.meets, self.stored, self.loaded = True, False, False

    def op(self, op: Op) -> None:
        self.fails |= isinstance(op, Check | SideExit)
        if self.is_parallel:
            self.of_iteration(op)
        elif isinstance(op, CONTROL):
            self.control(op)
        else:
            self.of_all(op)

    def of_iteration(self, op: Op) -> None:
        if isinstance(op, Alloc):
            self.own_array(op)
        else:
            Statements.op(self, op)

    def control(self, op: If | For | While | Scope) -> None:
        """A region that stores begins and ends where all have met, so no iteration and no arm must know of another."""
        stores = has_stores(op)
        if stores or self.stored:
            self.meet()
        self.storing.append(stores)
        Statements.op(self, op)
        self.storing.pop()

    def of_all(self, op: Op) -> None:
        match op:
            case Cfg():
                raise Unsupported("a loop that is entered at several places", op.at.line)
            case Yield() if self.storing[-1]:
                self.meet()
            case Break() | Again() if any(self.storing):
                self.meet()
            case Load() | Call():
                if self.stored:
                    self.meet()
                self.loaded = True
            case Store():
                self.meet()
                self.line("  if (npc_thread == 0)")
                self.stored = True
            case Alloc():
                self.allocates = True
                self.stored |= op.zeroed
        Statements.op(self, op)

    # --- parallel loops

    def loop(self, op: For) -> None:
        if op.kind is not LoopKind.PARALLEL:
            Statements.loop(self, op)
            return
        index, start, stop = map(self.name, (op.index, op.start, op.stop))
        self.is_parallel = True
        self.line("  for ({} = {} + npc_thread; {} < {}; {} += npc_threads) {{", index, start, index, stop, index)
        self.takers.append([])
        self.region(op.body)
        self.takers.pop()
        self.line("  }}")
        if any(isinstance(each, Check | SideExit) for each in walk(op.body)):
            self.line("  if (0) {{")
            self.line("  failing_{}:;", self.parallels)
            self.line("  status[NPC_FAILED].i = 1;")
            self.line("  }}")
        self.parallels += 1
        self.is_parallel, self.stored = False, True

    def exit(self, state: int) -> CText:
        """Where an iteration fails it goes to the end of its loop: all threads meet there."""
        return c("failing_{}", self.parallels) if self.is_parallel else Statements.exit(self, state)

    def own_array(self, op: Alloc) -> None:
        """Memory of this thread, which each of its iterations uses again."""
        kind, name = self.program.types[op.result], self.name(op.result)
        assert isinstance(kind, Memref), kind
        self.own.append(op)
        stride = c("(npc_i64)sizeof({})", element_type(kind))
        for axis in reversed(range(kind.rank)):
            self.line("  {}.n[{}] = {}; {}.s[{}] = {};", name, axis, self.name(op.sizes[axis]), name, axis, stride)
            stride = c("{}.s[{}] * {}.n[{}]", name, axis, name, axis)
        self.line("  {}.data = own_{} + npc_thread * ({}); {}.owner = -1; {}.is_view = 0;", name, op.result, stride, name, name)
        if op.zeroed:
            self.line("  for (npc_i64 k = 0; k < {}; ++k) {}.data[k] = 0;", stride, name)


def has_stores(op: If | For | While | Scope) -> bool:
    return any(isinstance(each, Store) or isinstance(each, Alloc) and each.zeroed for each in walk([op]))

"""A program of loops on a device: one kernel on arrays of the device. What it has written when it fails is put back."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from npcompile.backends.cuda.loop_ir.grid import THREADS
from npcompile.backends.cuda.loop_ir.nvrtc import NoNvrtc
from npcompile.backends.cuda.loop_ir.program import CudaProgram, cuda_program
from npcompile.backends.cuda.ranges import in_range
from npcompile.backends.device_arrays import ArrayKind, bounds
from npcompile.backends.loop_ir.exits import Leaf, Way, words_of
from npcompile.backends.loop_ir.native import LeftAlone, kind_of_call
from npcompile.backends.loop_ir.target import Unsupported
from npcompile.backends.overlap import overlaps_itself
from npcompile.backends.registry import may_not_return
from npcompile.tensor_core.loop_ir.activity import activity_of
from npcompile.tensor_core.loop_ir.foreknown import Foreknown, Shape, before_loops, given
from npcompile.tensor_core.loop_ir.forms import walk
from npcompile.tensor_core.loop_ir.ops import Alloc, For, LoopKind, Program
from npcompile.tensor_core.loop_ir.outcome import Datum, Made, made
from npcompile.tensor_core.loop_ir.report import Report
from npcompile.tensor_core.loop_ir.rows import Number
from npcompile.tensor_core.loop_ir.states import Fixed, Recipe, TupleOf, Use
from npcompile.tensor_core.loop_ir.types import DTYPES, Memref, Object, Scalar, dtype_of

FAILED, WAY, STATUS_WORDS, NO_ROOM = 0, 4, 5, -1  # of the status, as target.py has them
FEW_THREADS = 32  # of a block, where there is little to do
MOST_BLOCKS = 1 << 20
LEAST_ROOM, MOST_ROOM = 1 << 20, 1 << 33  # bytes for arrays whose sizes nobody knows before
MOST_PLANS = 64
MOST_OWN = 1 << 31  # bytes for the own arrays of all threads


class LoopKernel(Protocol):
    """The kernel `npc_loop` in the memory of a device."""

    processors: int  # that blocks run on

    def resident(self, threads: int) -> int: ...  # how many blocks of so many threads run at once
    def __call__(self, blocks: int, threads: int, words: Sequence[int], /) -> None: ...  # on the current stream


@dataclass(frozen=True, slots=True)
class Plan:
    """How a kernel is launched for arguments of some sizes."""

    blocks: int
    threads: int
    own: list[int]  # bytes for each thread, of each array that an iteration makes
    arena: int  # bytes of other arrays
    is_exact: bool  # is it known that they suffice?


@dataclass(slots=True, eq=False)
class DeviceLoop:
    """`DeviceLoop(program, device, kernel, kind)(arguments)` gives what the function gives. Raises LeftAlone."""

    cuda: CudaProgram
    device: Any
    kernel: LoopKernel
    kind: ArrayKind
    written: list[bool] = field(init=False)  # which params may be stored to
    start: Callable[..., None] = field(init=False)  # the kernel
    direct: Way | None = field(init=False)  # how it ends, where nobody has to ask
    room: int = LEAST_ROOM
    plans: dict[tuple[Any, ...], Plan] = field(default_factory=dict)

    def __post_init__(self) -> None:
        program, text = self.program, self.cuda.text
        self.start = in_range(self.kernel, self.device.library, f"{program.name}: npc_loop")
        activity = activity_of(program, [])
        params = [param.value for param in program.params]
        self.written = [isinstance(program.types[v], Memref) and activity.is_written(v) for v in params]
        ways = [text.ways.found[number] for number in set(text.ways.of_return.values())]
        is_known = len(ways) == 1 and is_of(ways[0].stack[0], params)
        self.direct = ways[0] if is_known and not text.fails and not text.allocates else None

    @property
    def program(self) -> Program:
        return self.cuda.program

    @property
    def report(self) -> Report:
        return self.cuda.report

    @property
    def source(self) -> str:
        return self.cuda.source

    def __call__(self, arguments: Sequence[Any]) -> Made:
        if may_not_return():
            raise LeftAlone("floating-point errors are to raise")
        self.refuse_shared(arguments)
        plan = self.plan(arguments)
        blocks, threads = plan.blocks, plan.threads
        with self.device.use():
            own = [self.memory(size * blocks * threads) for size in plan.own]
            while True:
                saved = self.saved(arguments)
                arena = self.memory(plan.arena + (0 if plan.is_exact else self.room)) if self.cuda.text.allocates else None
                status = self.device.zeros(STATUS_WORDS + self.cuda.text.ways.words, np.dtype(np.int64))
                self.launch(blocks, threads, status, arena, own, arguments)
                if self.direct is not None:
                    return made(self.direct.stack[0], self.params(arguments))
                words = np.empty(status.shape, status.dtype)
                self.device.download(status, words)
                number = int(words[WAY])
                if not words[FAILED] and number - 1 in self.cuda.text.ways.of_return.values():
                    return self.result(self.cuda.text.ways.found[number - 1], words[STATUS_WORDS:], arguments, arena)
                for x, copy in saved:
                    x[...] = copy
                if words[FAILED] or number != NO_ROOM:
                    raise LeftAlone("a check failed")
                self.room *= 8
                if self.room > MOST_ROOM:
                    raise LeftAlone("it makes too many arrays")

    # --- before

    def plan(self, arguments: Sequence[Any]) -> Plan:
        key = kind_of_call(arguments)
        found = self.plans.get(key)
        if found is None:
            if len(self.plans) >= MOST_PLANS:
                self.plans.clear()
            known = before_loops(self.program, given(self.program, [said_of(x) for x in arguments]))
            blocks, threads = self.shape(known)
            found = self.plans[key] = Plan(blocks, threads, self.own(known, blocks * threads), *self.arena(known))
        return found

    def refuse_shared(self, arguments: Sequence[Any]) -> None:
        """Arrays that are stored to share no memory with others, nor with themselves."""
        arrays = [(x, is_written) for x, is_written in zip(arguments, self.written) if isinstance(x, self.kind.type)]
        spans = [bounds(x, self.kind) for x, _ in arrays]
        for k, (x, is_written) in enumerate(arrays):
            if is_written and overlaps_itself(x):
                raise LeftAlone("an array that overlaps itself")
            for other in range(k):
                if (is_written or arrays[other][1]) and spans[k][0] < spans[other][1] and spans[other][0] < spans[k][1]:
                    raise LeftAlone("arrays that share memory")

    def shape(self, known: Foreknown) -> tuple[int, int]:
        """Blocks and threads: a thread for each iteration, on as many processors as there are."""
        loops = [op for op in walk(self.program.body) if isinstance(op, For) and op.kind is LoopKind.PARALLEL]
        counts = [known.count(op) for op in loops]
        known_counts = [count for count in counts if count is not None]
        are_known = len(known_counts) == len(counts)
        most = max([1, *known_counts]) if are_known else self.kernel.resident(THREADS) * THREADS
        threads = FEW_THREADS
        while threads < THREADS and threads * self.kernel.processors < most:
            threads *= 2
        blocks = -(-most // threads)
        return min(blocks, self.kernel.resident(threads) if self.cuda.text.meets else MOST_BLOCKS), threads

    def own(self, known: Foreknown, threads: int) -> list[int]:
        """Bytes of what iterations make, for each thread."""
        sizes = [self.bytes_of(op, known) for op in self.cuda.text.own]
        found = [size for size in sizes if size is not None]
        if len(found) < len(sizes) or sum(found) * threads > MOST_OWN:
            raise LeftAlone("arrays of iterations whose sizes are not known, or that are too large")
        return found

    def bytes_of(self, op: Alloc, known: Foreknown) -> int | None:
        kind = self.program.types[op.result]
        assert isinstance(kind, Memref), kind
        sizes = [size for size in known.sizes(op.sizes) if size is not None]
        return math.prod(sizes) * DTYPES[kind.element].itemsize if len(sizes) == kind.rank else None

    def arena(self, known: Foreknown) -> tuple[int, bool]:
        """Bytes of the arrays that are made outside of parallel loops, as far as they are known, and whether these are all."""
        own = {op.result for op in self.cuda.text.own}
        first = {op.result for op in self.program.body if type(op) is Alloc}
        made = [op for op in walk(self.program.body) if type(op) is Alloc and op.result not in own]
        sizes = [size for op in made if op.result in first and (size := self.bytes_of(op, known)) is not None]
        return sum((size + 15) & ~15 for size in sizes), len(sizes) == len(made)

    def memory(self, size: int) -> Any:
        return self.device.empty([max(size, 16)], np.dtype(np.uint8), [1])

    def saved(self, arguments: Sequence[Any]) -> list[tuple[Any, Any]]:
        """Arrays that may be stored to, and copies of them, where the program may fail."""
        if self.direct is not None or not (self.cuda.text.fails or self.cuda.text.allocates):
            return []
        return [(x, self.device.attempt(x.copy)) for x, is_written in zip(arguments, self.written) if is_written]

    def launch(self, blocks: int, threads: int, status: Any, arena: Any, own: list[Any], arguments: Sequence[Any]) -> None:
        address = self.device.address
        room = (0, 0) if arena is None else (address(arena), arena.size)
        words = [address(status), *room, *map(address, own)]
        for x, param in zip(arguments, self.program.params):
            words += self.words(x, param.value)
        self.start(blocks, threads, words)

    def words(self, x: Any, value: int) -> list[int]:
        kind = self.program.types[value]
        if isinstance(kind, Memref):
            return [self.device.address(x), 0, 0, *x.shape, *x.strides]
        if isinstance(kind, Object):
            return [0]
        assert isinstance(kind, Scalar), kind
        return [*struct.unpack("q", np.asarray(x, dtype_of(kind.kind)).tobytes().ljust(8, b"\0"))]

    # --- after

    def params(self, arguments: Sequence[Any]) -> dict[int, Any]:
        return {param.value: x for param, x in zip(self.program.params, arguments)}

    def result(self, way: Way, words: np.ndarray, arguments: Sequence[Any], arena: Any) -> Made:
        values: dict[int, Datum] = {leaf.value: self.datum(leaf, words, arguments, arena) for leaf in way.leaves}
        return made(way.stack[0], values)

    def datum(self, leaf: Leaf, words: np.ndarray, arguments: Sequence[Any], arena: Any) -> Any:
        mine = words[leaf.word : leaf.word + words_of(leaf.kind)]
        if isinstance(leaf.kind, Scalar):
            found = mine.view(dtype_of(leaf.kind.kind))[0]
            return found if leaf.kind.is_numpys else found.item()
        if isinstance(leaf.kind, Object):
            return arguments[int(mine[0])]
        assert isinstance(leaf.kind, Memref), leaf
        data, owner, is_view, *layout = map(int, mine)
        if 0 <= owner < len(arguments) and not is_view:
            return arguments[owner]
        rank = leaf.kind.rank
        base = arguments[owner] if 0 <= owner < len(arguments) else arena
        offset = data - self.device.address(base)
        return self.kind.view(base, offset, tuple(layout[:rank]), DTYPES[leaf.kind.element], tuple(layout[rank:]))


def compile_loop(program: Program, device: Any, kind: ArrayKind) -> DeviceLoop:
    """Of a program in blocks that aborts, for arrays of a kind on a device. Raises Unsupported with the user's line."""
    made = cuda_program(program)
    try:
        kernel = device.loop_kernel(made.source, made.text.meets)
    except NoNvrtc as missing:
        raise Unsupported(str(missing), 0) from missing
    return DeviceLoop(made, device, kernel, kind)


def is_of(recipe: Recipe, params: Sequence[int]) -> bool:
    """Is it made of arguments and constants alone?"""
    match recipe:
        case Fixed():
            return True
        case Use(value):
            return value in params
        case TupleOf(items):
            return all(is_of(item, params) for item in items)
    return False


def said_of(x: Any) -> Number | Shape:
    return x if isinstance(x, bool | int | float | complex | np.generic) else tuple(x.shape)

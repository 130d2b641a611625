"""The statement printer: a program of either stage as statements, which are the same for all targets but for the target's table.

Every value is a variable that is declared at the top, so that jumps cross no initialisation. A Scope's label stands after it, a
While's at the end of its body. An exit is a label at the end of the function, which stores the words of the way out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from npcompile.backends.loop_ir import parallel
from npcompile.backends.loop_ir.c_text import CText, c, joined
from npcompile.backends.loop_ir.c_values import c_type, handed_over, literal, memory_of, splat, taken
from npcompile.backends.loop_ir.exits import Undo, Ways, side_exits, words_of
from npcompile.backends.loop_ir.memory_statements import MemoryStatements
from npcompile.backends.loop_ir.pins import Needed, needed_results
from npcompile.backends.loop_ir.target import DIVIDED, Ability, Target, Unsupported, assignment, vector_helpers
from npcompile.backends.native_profiling import PROFILERS, line_of
from npcompile.tensor_core.events import moment
from npcompile.tensor_core.loop_ir.forms import REGIONS, RESULTS, inner, results, uses, walk
from npcompile.tensor_core.loop_ir.ops import (
    FP_ERRORS,
    NOWHERE,
    Again,
    Alloc,
    Append,
    Branch,
    Break,
    Call,
    Cfg,
    Check,
    Constant,
    Disjoint,
    For,
    FpCheck,
    FpClear,
    FrameState,
    Gather,
    Guard,
    If,
    Jump,
    Let,
    Load,
    LoopKind,
    NewList,
    Op,
    Policy,
    Poll,
    Program,
    Region,
    Return,
    Room,
    Routine,
    Scope,
    Scratch,
    SideExit,
    Size,
    Speculate,
    Splat,
    Store,
    Threads,
    View,
    While,
    Yield,
)
from npcompile.tensor_core.loop_ir.rows import sets_flags
from npcompile.tensor_core.loop_ir.types import (
    DTYPES,
    F32,
    F64,
    FLOATING,
    INTEGERS,
    NUMPYS,
    TRUTHS,
    Kind,
    List,
    Memref,
    Scalar,
    Type,
)

UNROLLED = (Constant, Guard, Let, Load, Size, Store, Yield)  # a loop of these alone that hands numbers on
MOST_UNROLLED = 32


def print_function(program: Program, target: Target) -> tuple[list[CText], Ways]:
    """The lines of a unit for a program, and its ways out. Raises Unsupported with the user's line."""
    moment("loop IR", program.name, subject=program)
    printer = Statements(program, target, side_exits(program))
    printer.reports = target.checks_flags
    printer.tells_lines = PROFILERS.are_told and Ability.LINES in target.abilities
    return printer.unit(), printer.ways


@dataclass(slots=True)
class Statements(MemoryStatements):
    ways: Ways
    takers: list[list[int]] = field(default_factory=list)  # what a Yield gives its values to, innermost last
    results: dict[int, list[int]] = field(default_factory=dict)  # by label of a Scope
    args: dict[int, list[int]] = field(default_factory=dict)  # by label of a While or Block
    flagged: list[Op] = field(default_factory=list)  # ops since the last look at flags that may set one
    used: set[int] = field(default_factory=set)  # exits
    targets: set[int] = field(default_factory=set)  # labels of Scopes and Whiles that something jumps to
    undos: list[Undo] = field(default_factory=list)  # of the Speculate that is being printed
    undone: list[Undo] = field(default_factory=list)  # of those that were
    powers: dict[int, int] = field(default_factory=dict)  # constants that are powers of 2: of which
    temporaries: int = 0
    functions: list[CText] = field(default_factory=list)  # of parallel loops
    parallels: int = 0
    speculates: int = 0
    is_parallel: bool = False  # are the iterations of such a loop being printed?
    ops: list[Op] = field(default_factory=list)  # all of them
    handed: dict[int, list[CText]] = field(default_factory=dict)  # by the id of a leaf, which several ways out have
    reports: bool = True  # are flags looked at after this?
    needed: Needed = field(init=False)  # where `reports`
    tells_lines: bool = False  # which of the user's each op is of
    last_look: Op | None = None  # at flags, in the outermost region: what is after it is not reported

    # --- the unit

    def unit(self) -> list[CText]:
        if self.program.policy is Policy.ABORT:
            self.last_look = next((op for op in reversed(self.program.body) if isinstance(op, FpCheck)), None)
        self.ops = walk(self.program.body)
        self.reports &= any(type(op) is FpCheck for op in self.ops)
        if self.reports:
            self.needed = needed_results(self.program)
        self.params()
        self.region(self.program.body)
        self.undoing()
        body, self.lines = self.lines, []
        self.lines.append(CText(self.target.helpers))
        self.types()
        self.lines += self.functions
        self.lines += self.head()
        self.declarations(self.values())
        self.lines += body
        for way in sorted(self.used):
            self.line("exit_{}:;", way)
            self.leave(way)
        self.line("}}")
        return self.lines

    def head(self) -> Iterable[CText]:
        return [*[CText("NPC_NOT_INLINED")] * self.tells_lines, CText(self.target.function)]

    def types(self) -> None:
        for rank in sorted({kind.rank for kind in self.program.types if isinstance(kind, Memref)}):
            self.line("struct npc_array{} {{ char* data; npc_i64 owner, is_view, n[{}], s[{}]; }};", rank, rank, rank)
        vectors = [kind for kind in self.program.types if isinstance(kind, Scalar) and kind.lanes > 1]
        found = dict.fromkeys((NUMPYS.get(kind.kind, kind.kind), kind.lanes) for kind in vectors)
        for element, lanes in sorted(found, key=lambda each: each[0] in FLOATING):  # those of numbers use those of truth values
            if Ability.VECTORS not in self.target.abilities:
                raise Unsupported(f"{self.target.name} has no {Ability.VECTORS.value}", 0)
            self.lines.append(CText(vector_helpers(element, lanes, (Kind.B1, lanes) in found)))

    def declarations(self, values: list[int]) -> None:
        of: dict[Type, list[CText]] = {}
        for value in values:
            of.setdefault(self.program.types[value], []).append(self.name(value))
        for kind, names in of.items():
            self.line("  {} {};", c_type(kind), joined(", *" if isinstance(kind, List) else ", ", names))
        own = set(values)
        kept = [op for op in self.ops if type(op) in (Alloc, Room, Scratch) and op.result in own]  # type: ignore[attr-defined]
        self.lines += memory_of(kept, self.program.types)

    def values(self) -> list[int]:
        found = [param.value for param in self.program.params]
        for op in self.ops:
            found += RESULTS[type(op)](op)
            if type(op) in REGIONS:
                found += inner(op)
                if isinstance(op, Cfg):
                    found += [arg for block in op.blocks for arg in block.args]
        return list(dict.fromkeys(found))

    def params(self) -> None:
        word = 0
        for number, param in enumerate(self.program.params):
            name, kind = self.name(param.value), self.program.types[param.value]
            self.lines += taken(kind, name, number, word)
            word += words_of(kind)

    def leave(self, number: int) -> None:
        for leaf in self.ways.found[number].leaves:
            lines = self.handed.get(id(leaf))
            if lines is None:
                lines = self.handed[id(leaf)] = list(handed_over(leaf, self.name(leaf.value)))
            self.lines += lines
        self.line("  NPC_LEAVE({});", number)

    def moved(self, values: list[int], into: list[int]) -> None:
        """All at once: a value that is read after another move has overwritten it is kept first."""
        moves = [(value, taker) for value, taker in zip(values, into, strict=True) if value != taker]
        kept: dict[int, CText] = {}
        overwritten: set[int] = set()
        for value, taker in moves:
            if value in overwritten and value not in kept:
                self.temporaries += 1
                kept[value] = c("t{}", self.temporaries)
            overwritten.add(taker)
        if kept:
            self.line("  {{")
        for value, text in kept.items():
            self.line("  const {} {} = {};", c_type(self.program.types[value]), text, self.name(value))
        for value, taker in moves:
            self.set(taker, kept.get(value) or self.name(value))
        if kept:
            self.line("  }}")

    # --- control

    def region(self, region: Region) -> None:
        for op in region:
            self.op(op)

    def op(self, op: Op) -> None:
        if self.tells_lines and (at := op.at) != NOWHERE:  # type: ignore[attr-defined]
            self.lines.append(CText(line_of(*at)))
        match op:  # what there is most of, first
            case Let():
                self.scalar(op)
            case FrameState():
                pass
            case Check(condition, state):
                self.line("  if (NPC_UNLIKELY(!{})) goto {};", self.name(condition), self.exit(state))
            case Constant(result, value):
                self.set(result, literal(value))
                if type(value) is int and value.bit_count() == 1 and value > 0:
                    self.powers[result] = value.bit_length() - 1
                if self.program.types[result] in (F32, F64) and self.reports:
                    self.line("  NPC_HIDE({});", self.name(result))
            case Size() | Load() | Gather() | Store() | View():
                self.memory(op)
            case If():
                self.pinned()  # else a compiler may move them into the arm that reads them
                self.takers.append(op.results)
                self.line("  if ({}) {{", self.name(op.condition))
                self.region(op.then)
                self.line("  }} else {{")
                self.region(op.orelse)
                self.line("  }}")
                self.takers.pop()
            case For():
                self.loop(op)
            case Speculate():
                self.speculated(op)
            case While():
                self.moved(op.initial, op.args)
                self.args[op.label] = op.args
                self.line("  for (;;) {{")
                self.region(op.body)
                self.label("again_{}:;", op.label)
                self.line("  }}")
            case Scope():
                self.results[op.label] = op.results
                self.region(op.body)
                self.label("leave_{}:;", op.label)
            case Yield():
                self.pinned()
                self.moved(op.values, self.takers[-1])
            case Break():
                self.pinned()
                self.moved(op.values, self.results[op.target])
                self.targets.add(op.target)
                self.line("  goto leave_{};", op.target)
            case Again():
                self.pinned()
                self.moved(op.values, self.args[op.target])
                self.targets.add(op.target)
                self.line("  goto again_{};", op.target)
            case Cfg() | Jump() | Branch():
                self.blocks(op)
            case Return():
                number = self.ways.of_return[id(op)]
                self.leave(number)
            case SideExit():
                self.line("  goto {};", self.exit(op.state))
            case _:
                self.plain(op)

    def label(self, template: str, label: int) -> None:
        """The place where a Scope or an iteration of a While ends, if something jumps there."""
        if label in self.targets:
            self.line(f"  {template}", label)

    def loop(self, op: For) -> None:
        if op.kind is LoopKind.PARALLEL and Ability.THREADS in self.target.abilities:
            self.parallel(op)
            return
        self.moved(op.initial, op.args)
        index, start, stop = map(self.name, (op.index, op.start, op.stop))
        is_for_target = op.kind is LoopKind.SIMD and not self.has_vectors(op)
        if is_for_target:
            self.line("  NPC_INDEPENDENT")
        elif op.args and len(op.body) <= MOST_UNROLLED and all(isinstance(each, UNROLLED) for each in op.body):
            self.line("  NPC_STRAIGHT")
        self.line("  for ({} = {}; {} < {}; ++{}) {{", index, start, index, stop, index)
        self.takers.append(op.args)
        self.region(op.body)
        self.takers.pop()
        self.line("  }}")
        self.moved(op.args, op.results)
        if not any(type(each) is Poll for each in walk(op.body)):
            self.worked(c("npc_span({}, {})", start, stop))
        if self.reports:
            for value in self.needed.behind.get(id(op), ()):
                self.pin(value)

    def worked(self, iterations: CText) -> None:
        if self.program.policy is Policy.RESUME and not self.is_parallel:
            self.line("  NPC_WORKED({});", iterations)

    def has_vectors(self, op: For) -> bool:
        kinds = (self.program.types[value] for each in walk(op.body) for value in results(each))
        return any(isinstance(kind, Scalar) and kind.lanes > 1 for kind in kinds)

    def parallel(self, op: For) -> None:
        number, self.parallels = self.parallels, self.parallels + 1
        outside = parallel.read_from_outside(op)
        given = [(c_type(self.program.types[value]), self.name(value)) for value in outside]
        before, self.lines, self.is_parallel = self.lines, list(parallel.function_head(number, given)), True
        self.declarations(parallel.defined_in(op))
        self.lines += parallel.iterations(self.name(op.index))
        self.takers.append([])
        self.region(op.body)
        self.takers.pop()
        self.lines += [c("  }}"), c("}}")]
        self.functions += self.lines
        self.lines, self.is_parallel = before, False
        self.line("  {{")
        self.lines += parallel.call(number, op, [name for _, name in given], self.name(op.start), self.name(op.stop))
        for poll in parallel.polls(op):
            self.line("  if (NPC_UNLIKELY(stopped_{})) goto {};", number, self.exit(poll.state))
            self.line("  NPC_POLL({});", self.exit(poll.state))
        if any(isinstance(each, Guard) for each in walk(op.body)):
            self.line("  if (NPC_UNLIKELY(given_{}.gave_up)) goto {};", number, self.given_up())
        self.line("  }}")

    def given_up(self) -> CText:
        self.undos[-1].is_given_up = True
        return c("given_up_{}", self.undos[-1].number)

    def speculated(self, op: Speculate) -> None:
        self.takers.append(op.results)
        self.undos.append(Undo(op.undo, self.speculates))
        self.speculates += 1
        self.region(op.body)
        undo = self.undos.pop()
        self.undone.append(undo)
        self.line("  if ({}) {{", self.raised(op.errors) if op.errors else c("0"))
        if undo.is_given_up:
            self.line("  given_up_{}:;", undo.number)
        self.takers.append([])
        self.region(op.undo)
        self.takers.pop()
        self.line("  npc_clear_flags();")
        self.region(op.slow)
        self.line("  }}")
        self.takers.pop()

    def raised(self, errors: int) -> CText:
        """Has one of these errors happened, and is it reported?"""
        bits = joined(" | ", [c(f"NPC_{name.upper()}") for name, bit in FP_ERRORS.items() if errors & bit])
        found = c("NPC_UNLIKELY(npc_flags() & reported & ({}))", bits)
        return c("{} && NPC_REPORTED({})", found, errors) if self.program.policy is Policy.ABORT else found

    def undoing(self) -> None:
        """Ways out of the bodies of Speculates."""
        for undo in self.undone:
            for way in undo.ways:
                self.line("undo_{}_{}:;", undo.number, way)
                self.takers.append([])
                self.region(undo.region)
                self.takers.pop()
                self.line("  goto exit_{};", way)

    def blocks(self, op: Cfg | Jump | Branch) -> None:
        match op:
            case Cfg(blocks):
                self.args |= {block.label: block.args for block in blocks}
                for block in blocks:
                    self.line("  block_{}:;", block.label)
                    self.region(block.ops)
            case Jump(target, args):
                self.moved(args, self.args[target])
                self.line("  goto block_{};", target)
            case Branch(condition, then, then_args, orelse, else_args):
                self.line("  if ({}) {{", self.name(condition))
                self.moved(then_args, self.args[then])
                self.line("  goto block_{};", then)
                self.line("  }}")
                self.moved(else_args, self.args[orelse])
                self.line("  goto block_{};", orelse)

    def exit(self, state: int) -> CText:
        """The label of a way out."""
        number = self.ways.of_state[state]
        self.used.add(number)
        if not self.undos:
            return c("exit_{}", number)
        self.undos[-1].ways[number] = None
        return c("undo_{}_{}", self.undos[-1].number, number)

    def pinned(self) -> None:
        """Ops that may set flags are computed before the flags are looked at, also where nothing reads their results.

        What an iteration hands to the next counts as unread: this may not read it, and the last iteration has no next.
        """
        if self.reports:
            read = {value for each in self.flagged for value in uses(each)}
            for each in self.flagged:
                (result,) = results(each)
                if result not in read and result not in self.needed.values:
                    self.pin(result)
        self.flagged = []

    def pin(self, value: int) -> None:
        kind = self.program.types[value]
        assert isinstance(kind, Scalar)
        if kind.lanes > 1 and kind.kind in TRUTHS:
            return
        wide = f"NPC_PIN{DTYPES[kind.kind].itemsize * kind.lanes}" if kind.lanes > 1 else ""
        macro = wide or ("NPC_PIN" if kind.kind in FLOATING else "NPC_PIN_INTEGER")
        self.line(f"  {macro}({{}});", self.name(value))

    # --- ops without regions

    def scalar(self, op: Let) -> None:
        types = self.program.types
        kinds = [kind for arg in op.args if type(kind := types[arg]) is Scalar]
        # A compiler sets no flags for what it computes itself: what overflows, and NumPy's numbers, it does not know.
        hides = self.reports and op.op in ("to_f64", "to_f32")
        is_early, names = op.op == "to_f32" and kinds[0].kind in FLOATING, [self.name(arg) for arg in op.args]
        if hides and is_early:  # a copy: what a parallel loop is given stays what it is
            self.line("  {{ double early = {}; NPC_HIDE(early);", names[0])
            names = [CText("early")]
        if op.op in DIVIDED and (bits := self.powers.get(op.args[1])) is not None and kinds[0].kind in INTEGERS:
            self.set(op.result, c(DIVIDED[op.op], names[0], bits))
        else:
            self.line(assignment(self.target, op.op, kinds, op.at.line), self.name(op.result), *names)
        if hides and is_early:
            self.line("  }}")
        if sets_flags(op.op, types[op.result]):
            self.flagged.append(op)
        if hides and not is_early:
            self.line("  NPC_HIDE({});", self.name(op.result))
        made = types[op.result]
        is_whole = isinstance(made, Scalar) and made.lanes == 1 and made.kind in INTEGERS
        if self.target.checks_flags and op.op.startswith("to_") and kinds[0].kind in FLOATING and is_whole:
            self.line("  NPC_HIDE_INTEGER({});", self.name(op.result))

    def plain(self, op: Op) -> None:
        line = op.at.line  # type: ignore[attr-defined]
        match op:
            case Guard(condition) if self.is_parallel:
                self.line("  if (NPC_UNLIKELY(!{})) {{", self.name(condition))
                self.line("  __atomic_store_n(&given->gave_up, 1, __ATOMIC_RELAXED); return;")
                self.line("  }}")
            case Guard(condition):
                self.line("  if (NPC_UNLIKELY(!{})) goto {};", self.name(condition), self.given_up())
            case Poll() if self.is_parallel:
                pass  # the runtime looks for signals meanwhile
            case Poll(state):
                self.line("  NPC_POLL({});", self.exit(state))
            case FpClear():
                if self.target.checks_flags:
                    self.pinned()
                    self.line("  npc_clear_flags();")
            case FpCheck(state, errors):
                self.pinned()
                if self.target.checks_flags and errors:
                    self.line("  if ({}) goto {};", self.raised(errors), self.exit(state))
                if op is self.last_look:
                    self.reports = False
            case Call(result, routine, args):
                self.set(result, c("npc_{}({})", c(routine), joined(", ", map(self.vector, args))))
                self.worked(c("{}.n[0]", self.name(args[0])))
                self.flagged.append(op)
            case Routine(routine, out, args, state):
                if Ability.THREADS not in self.target.abilities:
                    raise Unsupported(f"{self.target.name} has no {routine}", line)
                given = joined(", ", map(self.vector, args))
                self.line(
                    "  if (NPC_UNLIKELY(npc_by_{}({}.data, {}))) goto {};", c(routine), self.name(out), given, self.exit(state)
                )
            case Alloc():
                self.alloc(op, line)
            case Splat(result, value):
                self.set(result, splat(self.program.types[result], self.name(value)))
            case Disjoint() | Scratch() | Room():
                self.own_memory(op)
            case Threads(result):
                self.set(result, c("rt->threads()"))
            case NewList() | Append():
                self.lists(op, line)
            case _:
                raise Unsupported(f"{type(op).__name__}", line)

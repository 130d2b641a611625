"""Which functions run as programs of the loop IR: those for which no other compiler makes quicker ones.

Their loops count. From one iteration to the next they hand on floating-point numbers. What such a loop takes is the time of its
additions and multiplications, one after another, of lanes, or of products of vectors; and of choices whose arms both run. Loops
that wait for what others have stored, branches that stay, arithmetic of integers and functions are still quicker elsewhere, and
powers have libm's bits there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from npcompile.backends.loop_ir.exits import parts
from npcompile.tensor_core.loop_ir.affine import Ranges
from npcompile.tensor_core.loop_ir.dependence import along, places_of
from npcompile.tensor_core.loop_ir.forms import regions, uses, walk
from npcompile.tensor_core.loop_ir.if_conversion import waiting
from npcompile.tensor_core.loop_ir.ops import (
    Append,
    Call,
    Check,
    Constant,
    For,
    FpCheck,
    FrameState,
    Guard,
    If,
    Let,
    Load,
    Op,
    Place,
    Poll,
    Program,
    Region,
    Return,
    SideExit,
    Speculate,
    Store,
    View,
    While,
    Yield,
)
from npcompile.tensor_core.loop_ir.pipeline import PASSES, Ran, before, run_passes
from npcompile.tensor_core.loop_ir.rows import ROWS, Rule
from npcompile.tensor_core.loop_ir.states import TupleOf
from npcompile.tensor_core.loop_ir.types import BOOL, FLOATING, INT, Memref, Scalar, Type
from npcompile.tensor_core.loop_ir.verifier import Stage, stage_of
from npcompile.tracer.bytecode.analysis import CodeFacts, loop_region
from npcompile.tracer.loop_ir.abstract import Unsupported
from npcompile.tracer.loop_ir.front_end import Traced

EXACT = ("add", "subtract", "multiply", "divide", "negative", "absolute", "sqrt")  # whose results IEEE 754 tells to the bit
CHOSEN = "choose"  # one of two numbers that are there already
POWERS = ("**", "**=")
SMALL = 4096  # elements of arrays of which statements take less time than going on with another program
STATEMENTS = False  # about whole arrays: other compilers do several at once, and on threads
FIRST = len(before("value ranges"))  # the first pass after which loops are no more as the user wrote them


def optimised(traced: Traced, facts: CodeFacts, given: Sequence[object] | None) -> list[Ran]:
    """Run the passes on a program in place. Raises Unsupported where the function is better compiled in another way.

    `given`: examples of its arguments; None for a program that begins at a loop.
    """
    program = traced.program
    ran = run_passes(program, passes=PASSES[:FIRST])
    for reason in (*why_not_whole(program, facts, given), *why_not_plain(program)):
        raise Unsupported(reason)
    in_lanes = {op.at for op in walk(program.body) if isinstance(op, For) and is_for_lanes(op)}  # passes add loops there
    ran += run_passes(program, passes=PASSES[FIRST:])
    for reason in (*one_by_one(program, ran, in_lanes), *choices_that_cost(program)):
        raise Unsupported(reason)
    return ran


def why_not_whole(program: Program, facts: CodeFacts, given: Sequence[object] | None) -> Iterator[str]:
    """Why the program is not all of the function, or of what other compilers have in one program."""
    if stage_of(program) is not Stage.STRUCTURED:
        yield "a loop that is entered at several places"
        return
    if any(type(i.argval) is str and i.argval in POWERS for i in facts.instructions):
        yield "a power: squares are products here, and libm rounds some of them otherwise"
    ops = list(walk(program.body))
    behind = ends(program, facts, facts.loop_headers)
    are_small = given is not None and not any(isinstance(x, np.ndarray) and x.size > SMALL for x in given)
    if are_small and any(has_arrays(program, state) and are_statements(facts, state.point) for state in behind):
        yield "statements about small arrays behind the loops"
    if any(are_shared(op) for op in ops if isinstance(op, FrameState | Return)):
        yield "a tuple that may be several variables'"
    if (seen := seen_twice(program)) and any(sum(program.types[v] in seen for v in uses(op)) > 1 for op in ops if holds(op)):
        yield "parts of an array, which may be one object or several"


def holds(op: Op) -> bool:
    """Does Python get objects for its values?"""
    return isinstance(op, FrameState | Return)


def seen_twice(program: Program) -> set[Type]:
    """The types of which there are several views of one array: equal ones are one object here, and Python makes one for each."""
    views = {op.result: op.array for op in walk(program.body) if isinstance(op, View)}
    counted: Counter[tuple[int, Type]] = Counter()
    for view, array in views.items():
        while array in views:
            array = views[array]
        counted[array, program.types[view]] += 1
    return {kind for (_, kind), count in counted.items() if count > 1}


def ends(program: Program, facts: CodeFacts, headers: Iterable[int]) -> list[FrameState]:
    """Where the program ends behind the loops with these headers, and Python goes on."""
    ops = walk(program.body)
    left = {op.state for op in ops if isinstance(op, SideExit)}
    last = max((max(loop_region(facts, header)) for header in headers), default=-1)
    return [op for op in ops if isinstance(op, FrameState) and op.name in left and op.point > last]


def has_arrays(program: Program, state: FrameState) -> bool:
    return any(isinstance(program.types[value], Memref) for value in uses(state))


def are_statements(facts: CodeFacts, index: int) -> bool:
    """Are there calls or operators from an instruction on?"""
    return any(i.traits.call or i.traits.operator for i in facts.instructions[index:])


def are_shared(op: FrameState | Return) -> bool:
    """May a tuple stand at two places? It is one object in Python, and recipes make one for each."""
    recipes = [op.value] if isinstance(op, Return) else [*op.stack, *(slot.recipe for slot in op.locals)]
    tuples = [each for recipe in recipes for each in parts(recipe) if isinstance(each, TupleOf) and each.items]
    return len({*tuples}) < len(tuples) or isinstance(op, FrameState) and bool(tuples)


def why_not_plain(program: Program) -> Iterator[str]:
    """What there is in loops beside floating-point arithmetic on elements."""
    for op in walk(program.body):
        if isinstance(op, Let) and is_floating(program.types[op.result]) and not is_exact(op.op):
            yield f"line {op.at.line}: {op.op}, whose last bits may be others than in arrays"
        if isinstance(op, While) and not any(is_floating(program.types[arg]) for arg in op.args):
            yield f"the loop at line {op.at.line}: it does not count"
        elif isinstance(op, For):
            kinds = [program.types[arg] for arg in op.args]
            if not all(map(is_handed_on, kinds)) and not (kinds.count(INT) == 1 and has_choice(op)):
                yield f"the loop at line {op.at.line}: integers go from one iteration to the next"
            yield from of_iterations(op, program)


def is_innermost(loop: For) -> bool:
    """Does no iteration have a loop, or the product of two vectors, which is one?"""
    return not any(isinstance(each, For | Call) for each in walk(loop.body))


def is_for_lanes(loop: For) -> bool:
    """Is it an innermost loop, or one around loops that only add up?"""
    inside = [each for each in walk(loop.body) if isinstance(each, For)]
    return is_innermost(loop) or bool(inside) and all(each.args and is_innermost(each) for each in inside)


def is_exact(name: str) -> bool:
    return name in (*EXACT, CHOSEN) or ROWS[name].rule is Rule.CONVERTED


def has_choice(loop: For) -> bool:
    return any(isinstance(op, If) for op in walk(loop.body))


def is_handed_on(kind: Type) -> bool:
    """Is it a number that takes no tests, an array, or which of two kinds a number is of? One integer may be a count."""
    return isinstance(kind, Memref) or kind == BOOL or is_floating(kind)


def is_floating(kind: Type) -> bool:
    return isinstance(kind, Scalar) and kind.kind in FLOATING


def of_iterations(loop: For, program: Program) -> Iterator[str]:
    for op in walk(loop.body):
        if isinstance(op, Append):
            yield f"line {op.at.line}: a list that grows"


def one_by_one(program: Program, ran: Sequence[Ran], in_lanes: set[Place]) -> Iterator[str]:
    """Why the iterations of a loop that should be lanes run one by one, though none needs the numbers that another hands on."""
    fired = {each.name: {x.at for x in each.said if not x.reason} for each in ran}
    ops = [*without_slow_forms(program.body)]
    stored = {program.types[op.value] for op in ops if isinstance(op, Store)}
    chooses = any(isinstance(op, Let) and op.op == CHOSEN for op in ops)
    if not fired["wavefront"] or chooses or not all(map(is_floating, stored)):  # several rows at once are quicker
        for at in fired["forward stores"]:
            yield f"the loop at line {at.line}: iterations that need what others store"
    read = {op.result for op in ops if isinstance(op, Load)}
    for op in ops:  # what is used is made before
        if isinstance(op, Let) and not read.isdisjoint(op.args):
            read.add(op.result)
    found = {op.result for op in ops if isinstance(op, Let) and op.op == "is_index" and op.args[0] in read}
    loops = [op for op in ops if isinstance(op, For) and op.at in in_lanes - fired["vectorize"] and not op.args]
    quick = {op.at for op in loops if not any(isinstance(each, Check) for each in walk(op.body))}
    for op in loops:
        asks = [each for each in op.body if isinstance(each, Check | Guard) and each.condition in found]
        if any(isinstance(each, Guard) or op.at not in quick for each in asks):
            yield f"the loop at line {op.at.line}: places that are read from memory"


def choices_that_cost(program: Program) -> Iterator[str]:
    """What of choices in an iteration is quicker elsewhere, in the versions of loops that take no looks in between."""
    loops = [op for op in without_slow_forms(program.body) if isinstance(op, For)]
    loops = [op for op in loops if is_innermost(op)]
    quick = [op for op in loops if not any(isinstance(each, FpCheck | Check | Poll) for each in walk(op.body))]
    for loop in loops:
        if has_choice(loop) and not any(each.at == loop.at for each in quick):
            yield f"the loop at line {loop.at.line}: choices where Python may go on in each iteration"
    for loop in quick:
        yield from of_choices(loop, program)
    constants, places = {op.result for op in walk(program.body) if isinstance(op, Constant)}, places_of(program)
    for loop in (op for op in without_slow_forms(program.body) if isinstance(op, For)):
        if not all(is_count(loop, k, constants, places) for k, arg in enumerate(loop.args) if program.types[arg] == INT):
            yield f"the loop at line {loop.at.line}: integers that count nothing go from one iteration to the next"


def is_count(loop: For, k: int, constants: set[int], places: Ranges) -> bool:
    """Is what the loop hands on at a place how many of some elements, which stand side by side, are chosen? Or is it an inner
    loop's."""
    made = {op.result: op for op in loop.body if isinstance(op, Let)}
    last = loop.body[-1]
    assert isinstance(last, Yield), last
    step = made.get(last.values[k])
    if step is None:
        return not isinstance(loop.body[-2], Let)
    loads = [op for op in loop.body if isinstance(op, Load)]
    are_beside = all(along(places, op.index[-1], loop.index) in (0, 1) for op in loads)  # or are one
    added = [value for value in step.args if value != loop.args[k]]
    return are_beside and step.op == "add" and len(added) == 1 and is_chosen(added[0], made, constants)


def is_chosen(value: int, made: dict[int, Let], constants: set[int]) -> bool:
    """Is it one of several constants, by a choice?"""
    op = made.get(value)
    is_choice = op is not None and op.op == CHOSEN
    return is_choice and all(each in constants or is_chosen(each, made, constants) for each in op.args[1:])  # type: ignore[union-attr]


def without_slow_forms(region: Region) -> Iterator[Op]:
    """All ops but those that run where a block has to be done again."""
    for op in region:
        yield op
        for part in regions(op):
            if type(op) is not Speculate or part is op.body:
                yield from without_slow_forms(part)


def of_choices(loop: For, program: Program) -> Iterator[str]:
    inside, waits = walk(loop.body), waiting(loop)
    chosen = {op.result for op in inside if isinstance(op, Let) and op.op == CHOSEN}
    places = {(op.array, *op.index) for op in inside if isinstance(op, Load)}
    arms = {id(each) for op in inside if isinstance(op, If) for each in walk([op])}
    for op in inside:
        if isinstance(op, Store) and (id(op) in arms or op.value in chosen):
            if any(place[0] == op.array and place[1:] != (*op.index,) for place in places):
                yield f"line {op.at.line}: a choice of what other iterations may read"
        elif isinstance(op, Let) and op.op == CHOSEN and program.types[op.result] == BOOL and op.args[0] in waits:
            yield f"line {op.at.line}: a choice between Python's number and NumPy's, which the next iteration waits for"

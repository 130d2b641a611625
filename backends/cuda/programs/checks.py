"""Indices that are data: which loops they depend on, and their check where a kernel has nothing else to do."""

from __future__ import annotations

from collections.abc import Sequence

from npcompile.backends.cuda.programs.printer import Axes, Context, Nest, finished, masks
from npcompile.backends.cuda.programs.program import Program
from npcompile.backends.cuda.programs.tile_printer import COLUMN
from npcompile.backends.kernels.index import symbols_in
from npcompile.backends.kernels.kernel import CheckIndex, Let, Load, Position, Statement
from npcompile.tensor_core.meta import product


def axes_used(statements: Sequence[Statement]) -> dict[str, set[str]]:
    """The loops that each value depends on."""
    uses: dict[str, set[str]] = {}
    for s in statements:
        match s:
            case Let(target, _, args):
                uses[target.name] = set().union(*(uses.get(a.name, set()) for a in args))
            case Position(target, index):
                uses[target.name] = symbols_in(index)
            case Load(target, _, offset, mask):
                found = [uses.get(name, {name}) for name in symbols_in(offset)]
                uses[target.name] = set().union(*found, uses.get(mask.name, set()) if mask else set())
            case CheckIndex(target, value, mask=mask):
                uses[target.name] = uses.get(value.name, set()) | (uses.get(mask.name, set()) if mask else set())
    return uses


def axes_of_places(nest: Nest) -> set[str]:
    """The loops that indices depend on."""
    uses = axes_used(nest.inside)
    return set().union(*(uses[s.target.name] for s in nest.inside if isinstance(s, CheckIndex)))


def rows_and_columns(nest: Nest) -> tuple[Axes, Axes]:
    """The loops that indices depend on with those around them, and the loops inside of these."""
    places = axes_of_places(nest)
    last = max((k for k, (axis, _) in enumerate(nest.axes) if axis in places), default=-1)
    return nest.axes[: last + 1], nest.axes[last + 1 :]


def checked_axes(nest: Nest) -> Axes | None:
    """The loops that indices depend on; None where there is nothing to check but in loops that all depend on."""
    places = axes_of_places(nest)
    axes = [a for a in nest.axes if a[0] in places]
    has_checks = any(isinstance(s, CheckIndex) for s in nest.inside)
    return axes if has_checks and len(axes) < len(nest.axes) else None


def print_checks(context: Context, nest: Nest, axes: Axes) -> Program:
    """The indices of a kernel whose other loops are empty: NumPy refuses those that are outside even then."""
    uses = axes_used(nest.inside)
    inner = {axis for axis, _ in nest.axes} - {axis for axis, _ in axes}
    writer = context.writer()
    writer.line("program = tl.program_id(0).to(INDEX)")
    writer.tile_indices(None, "program * BLOCK")
    masks(writer, None, writer.size(product([n for _, n in axes])))
    writer.axes("column", axes, COLUMN)
    for s in nest.inside:
        if isinstance(s, (Let, Position, Load, CheckIndex)) and not uses[s.target.name] & inner:
            writer.statement(s)
    return finished(writer, f"{context.kernel.name}_check")

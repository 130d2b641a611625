"""What the fields of each op are, by their annotations; and from that, for each class, functions that read, substitute and copy.

They are made as text, once, as dataclasses make constructors: a loop over the fields of an op by name takes five times as long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

from npcompile.tensor_core.loop_ir import ops
from npcompile.tensor_core.loop_ir.ops import For, FrameState, Op, Region, Return
from npcompile.tensor_core.loop_ir.states import Recipe, leaves_of, slots_substituted, substituted


@dataclass(frozen=True, slots=True)
class Form:
    """The fields of an op by role, in the order in which they are written."""

    names: tuple[str, ...]  # without the place
    roles: tuple[str, ...]  # the annotations of the same

    def of(self, *roles: str) -> list[str]:
        """The fields of these roles: a role's lists are a role of their own."""
        return [name for role in roles for name, found in zip(self.names, self.roles) if found == role]


def form_of(kind: type[Op]) -> Form:
    found = [(f.name, str(f.type)) for f in fields(kind) if f.name != "at"]
    return Form(tuple(name for name, _ in found), tuple(annotation for _, annotation in found))


OP_CLASSES = {k.__name__: k for k in vars(ops).values() if isinstance(k, type) and issubclass(k, Op) and k is not Op}
FORMS: dict[type[Op], Form] = {kind: form_of(kind) for kind in OP_CLASSES.values()}


# --- functions of a class, as text


def listed(form: Form, one: str, many: str) -> str:
    """Values of a role, as the text of a list."""
    return f"[{', '.join([*(f'op.{name}' for name in form.of(one)), *(f'*op.{name}' for name in form.of(many))])}]"


def reader(form: Form, one: str, many: str) -> str:
    return f"def made(op):\n    return {listed(form, one, many)}"


def reader_of_uses(form: Form) -> str:
    extra = ["leaves_of(op.stack)"] if "list[Recipe]" in form.roles else []
    extra += ["leaves_of([slot.recipe for slot in op.locals])"] if "list[Slot]" in form.roles else []
    extra += ["leaves_of([op.value])"] if "Recipe" in form.roles else []
    return " + ".join([reader(form, "Value", "list[Value]"), *extra])


def reader_of_regions(form: Form) -> str:
    if "list[Block]" in form.roles:
        return "def made(op):\n    return [block.ops for block in op.blocks]"
    return reader(form, "Region", "")


def substituter(form: Form) -> str:
    lines = ["def made(op, new):"]
    for name in form.of("Value"):
        lines.append(f"    if op.{name} in new: op.{name} = new[op.{name}]")
    for name in form.of("list[Value]"):
        lines += [f"    for value in op.{name}:", "        if value in new:"]
        lines += [f"            op.{name} = [new.get(each, each) for each in op.{name}]", "            break"]
    for name, role in zip(form.names, form.roles):
        lines += [f"    op.{name} = {text.format(name, new='new')}" for text in RECIPES.get(role, ())]
    return "\n".join([*lines, "    return None"])


RECIPES = {
    "Recipe": ("substituted(op.{}, {new})",),
    "list[Recipe]": ("[substituted(recipe, {new}) for recipe in op.{}]",),
    "list[Slot]": ("slots_substituted(op.{}, {new})",),
}
# A field of a copy, by role. Definitions come after what is read, and regions after both.
COPIES = {
    "Value": "values.get(op.{0}, op.{0})",
    "list[Value]": "[values.get(value, value) for value in op.{0}]",
    "Result": "cloner.define(op.{0})",
    "Inner": "cloner.define(op.{0})",
    "list[Result]": "[cloner.define(value) for value in op.{0}]",
    "list[Inner]": "[cloner.define(value) for value in op.{0}]",
    "Label": "cloner.label(op, op.{0})",
    "State": "cloner.state(op, op.{0})",
    "Region": "cloner.region(op.{0})",
    "list[Block]": "cloner.blocks(op.{0})",
}
COPIES |= {role: texts[0].replace("{}", "{0}").replace("{new}", "values") for role, texts in RECIPES.items()}
ORDER = ("Result", "Inner", "list[Result]", "list[Inner]", "Label", "State", "Region", "list[Block]")


def rank_of(role: str) -> int:
    return ORDER.index(role) if role in ORDER else -1


def copier(form: Form) -> str:
    lines = ["def made(op, cloner):", "    values = cloner.values"]
    for role, name in sorted(zip(form.roles, form.names), key=lambda each: rank_of(each[0])):
        lines.append(f"    {name}_ = {COPIES.get(role, 'op.{0}').format(name)}")
    return "\n".join(
        [*lines, f"    return kind({', '.join(f'{name}_' for name in form.names)}{', ' if form.names else ''}op.at)"]
    )


def made_of(kind: type[Op], text: str) -> Callable[..., Any]:
    names: dict[str, Any] = {
        "kind": kind,
        "leaves_of": leaves_of,
        "substituted": substituted,
        "slots_substituted": slots_substituted,
    }
    exec(text, names)
    return names["made"]


Read: TypeAlias = "dict[type[Op], Callable[[Op], list[int]]]"
Inside: TypeAlias = "dict[type[Op], Callable[[Op], list[Region]]]"
USES: Read = {kind: made_of(kind, reader_of_uses(form)) for kind, form in FORMS.items()}
RESULTS: Read = {kind: made_of(kind, reader(form, "Result", "list[Result]")) for kind, form in FORMS.items()}
INNER: Read = {kind: made_of(kind, reader(form, "Inner", "list[Inner]")) for kind, form in FORMS.items()}
REGIONS: Inside = {
    kind: made_of(kind, reader_of_regions(form)) for kind, form in FORMS.items() if {"Region", "list[Block]"} & set(form.roles)
}
SUBSTITUTE: dict[type[Op], Callable[[Op, Mapping[int, int]], None]] = {
    kind: made_of(kind, substituter(form)) for kind, form in FORMS.items()
}
COPY = {kind: made_of(kind, copier(form)) for kind, form in FORMS.items()}


# --- what passes ask


def recipes(op: Op) -> Iterator[Recipe]:
    if type(op) is FrameState:
        yield from op.stack
        yield from (slot.recipe for slot in op.locals)
    elif type(op) is Return:
        yield op.value


def uses(op: Op) -> list[int]:
    """The values that the op itself reads, those of its recipes included, without what its regions read."""
    return USES[type(op)](op)


def results(op: Op) -> list[int]:
    return RESULTS[type(op)](op)


def inner(op: Op) -> list[int]:
    """The values that the op defines inside its region. Of a Cfg, see its blocks."""
    return INNER[type(op)](op)


def defined(ops: Iterable[Op]) -> set[int]:
    """The values that ops define, those for their regions included."""
    found: set[int] = set()
    for op in ops:
        kind = type(op)
        found.update(RESULTS[kind](op))
        if kind in REGIONS:
            found.update(INNER[kind](op))
    return found


def regions(op: Op) -> list[Region]:
    found = REGIONS.get(type(op))
    return [] if found is None else found(op)


def walk(region: Region) -> list[Op]:
    """Every op, those inside others included, in the order of the text."""
    found: list[Op] = []
    gather(region, found)
    return found


def gather(region: Region, found: list[Op]) -> None:
    reads = REGIONS
    for op in region:
        found.append(op)
        if (kind := type(op)) in reads:
            for part in reads[kind](op):
                gather(part, found)


def all_regions(region: Region) -> Iterator[Region]:
    """The region and all that are inside it."""
    yield region
    for op in region:
        for part in regions(op):
            yield from all_regions(part)


def substitute(op: Op, new: Mapping[int, int]) -> None:
    """Let the op itself read other values."""
    SUBSTITUTE[type(op)](op, new)


def final(value: int, new: Mapping[int, int]) -> int:
    """The value that it is in the end, where others are replaced too."""
    while value in new:
        value = new[value]
    return value


def substitute_final(region: Region, new: Mapping[int, int]) -> None:
    """Let all ops read what values are in the end."""
    substitute_all(region, {value: final(value, new) for value in new})


def substitute_all(region: Region, new: Mapping[int, int]) -> None:
    if new:
        for op in walk(region):
            SUBSTITUTE[type(op)](op, new)


def replace_loops(
    region: Region,
    known: set[int],
    replaced: Callable[[For, set[int]], Region | None],
    parts: Callable[[Op], list[Region]],
) -> None:
    """Put what `replaced` makes of a loop in its place, of the outermost that it takes; in those that it leaves, look inside.

    `known`: the values that there are where the region begins. `parts`: the regions of an op to look into.
    """
    known, made = set(known), list[Op]()
    for op in region:
        found = replaced(op, known) if type(op) is For else None
        if found is None:
            for part in parts(op):
                replace_loops(part, known | set(inner(op)), replaced, parts)
        made += [op] if found is None else found
        known.update(results(op))
    region[:] = made

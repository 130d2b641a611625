"""What native programs ask of objects that are not numbers: is it None, which string is it, what does a dict have for a key.

The answers are known when the program is written. Of strings and dicts that are given, guards say what was asked and no more.
"""

from __future__ import annotations

from typing import Any

from npcompile.backends.cpu.loops.scalar_loops import Fail, NoForm, is_integer
from npcompile.tensor_core.guards import Equals, HasKey, Is, OfType
from npcompile.tensor_core.source import NONE, Call, Literal
from npcompile.tracer.bytecode.decode import Instruction
from npcompile.tracer.native import arrays, number_lists
from npcompile.tracer.native.blocks import Blocks, Left
from npcompile.tracer.native.meanings import compare
from npcompile.tracer.native.numbers import truth
from npcompile.tracer.native.types import Items, Known, NumberList, Outside, Scalar

KNOWN = ("0", "1")  # truth values, as C


def boolean(value: bool) -> Scalar:
    return Scalar("bool", str(int(value)))


def is_none(b: Blocks, value: Any) -> bool:
    if isinstance(value, Outside):  # of which nothing else may be asked
        b.guard(Is(value.source, NONE, False))
    return isinstance(value, Known) and value.value is None


def text_of(b: Blocks, value: Any) -> str | None:
    """The string that a value is in all calls of the program."""
    if isinstance(value, Known):
        return value.value if type(value.value) is str else None
    if not isinstance(value, Outside) or type(value.example) is not str:
        return None
    b.guard(OfType(value.source, b.object_of(str)))
    b.guard(Equals(value.source, Literal(value.example)))
    return value.example


def compared(b: Blocks, sign: str, left: Any, right: Any, fail: Fail) -> Any:
    """Of numbers and arrays, or of strings."""
    one, other = text_of(b, left), text_of(b, right)
    if sign in ("==", "!=") and one is not None and other is not None:
        return boolean((one == other) == (sign == "=="))
    return compare(b.code, sign, left, right, fail)


def truth_of(b: Blocks, value: Any) -> str:
    if is_none(b, value):
        return "0"
    if isinstance(value, NumberList):
        number_lists.require(b)
        return b.code.new("bool", f"{value.count} != 0")
    found = text_of(b, value)
    return truth(b.code, value) if found is None else str(int(bool(found)))


def inverted(b: Blocks, text: str) -> Scalar:
    return boolean(text == "0") if text in KNOWN else Scalar("bool", b.code.new("bool", f"!{text}"))


def jump_if(b: Blocks, i: Instruction, is_taken: bool) -> None:
    """A branch of which it is known where it goes."""
    b.go(i.target if is_taken else i.index + 1)
    raise Left


def is_op(b: Blocks, i: Instruction, fail: Fail) -> None:
    right, left = b.pop(), b.pop()
    are_none = [is_none(b, arrays.reported(b.code, x, fail)) for x in (left, right)]
    if not any(are_none):
        raise NoForm("`is` of other objects than None")
    b.push(boolean(all(are_none) != bool(i.arg)))


def branch(b: Blocks, i: Instruction, fail: Fail) -> None:
    """Jump where an object is None, or where it is not."""
    jump_if(b, i, is_none(b, arrays.reported(b.code, b.pop(), fail)) == (i.traits.flow == "if none"))


def contains_op(b: Blocks, i: Instruction, fail: Fail) -> None:
    container, value = b.pop(), b.pop()
    made = contained(b, container, value, fail)
    b.push(inverted(b, made.text) if i.arg else made)


def contained(b: Blocks, container: Any, value: Any, fail: Fail) -> Scalar:
    """`value in (a, b)`, of strings or integers. Of floating-point numbers it would matter which NaN is which object."""
    text = text_of(b, value)
    if text is not None and isinstance(container, Known) and type(container.value) is frozenset:
        return boolean(text in container.value)
    if not isinstance(container, Items):
        raise NoForm("`in` of other than a tuple")
    if text is not None:
        texts = [text_of(b, item) for item in container.items]
        if None in texts:
            raise NoForm("a string beside other objects")
        return boolean(text in texts)
    numbers = [value, *container.items]
    if not all(isinstance(x, Scalar) and is_integer(x.kind) for x in numbers) or len(numbers) < 2:
        raise NoForm("`in` of other than integers and strings")
    found = [compare(b.code, "==", value, item, fail).text for item in container.items]
    return Scalar("bool", b.code.new("bool", " || ".join(found)))


def item_of_dict(b: Blocks, owner: Outside, key: Any) -> Any:
    """What a dict has for a string. Nothing in a native program changes it."""
    given, text = owner.example, text_of(b, key)
    if type(given) is not dict or text is None or text not in given:
        raise NoForm(f"an item of {type(given).__name__}")
    b.guard(OfType(owner.source, b.object_of(dict)))
    b.guard(HasKey(owner.source, Literal(text)))
    return b.realize(Outside(Call(owner.source.attribute("get"), Literal(text)), given[text]))

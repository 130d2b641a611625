"""Every message that a user can meet, collected from the source, by the rules that a machine can check."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

import npcompile as npc

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("npcompile", "numpy_shim", "tensor_core", "backends")
WARNINGS = {"warn_user", "warn_once", "warn_explicit"}
REASONS = {"Decline", "Break", "Unsupported", "GraphBreakError"}  # a reason, and what to do instead
INTERNAL = {"AssertionError", "StopIteration", "KeyError", "AttributeError", "NotImplementedError"}  # nobody reads their texts
GIVEN = "{}"  # in the place of a value


@dataclass(frozen=True, slots=True)
class Message:
    place: str
    kind: str  # "error", "warning", "reason", "hint"
    text: str
    error: str  # what is raised or called


def text_of(node: ast.expr | None) -> str | None:
    """A text with `{}` for each value in it. None for what is no text in the source."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(v.value if isinstance(v, ast.Constant) else GIVEN for v in values)
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return f"{text_of(left) or GIVEN}{text_of(right) or GIVEN}"
        case ast.IfExp(body=body):
            return text_of(body)
    return None


def called(node: ast.Call) -> str:
    return node.func.id if isinstance(node.func, ast.Name) else node.func.attr if isinstance(node.func, ast.Attribute) else ""


def of_file(path: Path, root: Path = ROOT) -> Iterator[Message]:
    tree = ast.parse(path.read_text())
    raised = {node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        place, name = f"{path.relative_to(root)}:{node.lineno}", called(node)
        texts = [text_of(argument) for argument in node.args]
        if name in REASONS:
            kinds = ["reason", "hint"]
        elif name in WARNINGS:
            kinds = ["warning"]
        elif node in raised and name not in INTERNAL:
            kinds = ["error"]
        else:
            continue
        for kind, text in zip(kinds, texts):
            if text:
                yield Message(place, kind, text, name)


@cache
def messages() -> tuple[Message, ...]:
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py")) if not path.is_symlink()]
    return tuple(message for path in paths for message in of_file(path))


@cache
def of_numpy() -> str:
    """All texts in NumPy: a message that is NumPy's stays as it is."""
    folder = Path(np.__file__).parent
    paths = (*folder.rglob("_core/*.so"), *folder.rglob("linalg/*.so"), *folder.rglob("random/*.so"), *folder.rglob("*.py"))
    return "\n".join(path.read_bytes().decode("latin-1") for path in paths if "tests" not in path.parts)


def is_numpys(text: str) -> bool:
    """Is it a message of NumPy's, or of Python's, as far as its longest fixed piece tells?"""
    longest = max((piece.strip(" '(),.") for piece in text.split(GIVEN)), key=len)
    return len(longest) > 8 and longest in of_numpy()


def begins_as_numpys(text: str) -> bool:
    """The same by the first words: NumPy has values where reasons have none."""
    first = re.match(r"\w+( \w+){2}", text)
    return first is not None and first[0] in of_numpy()


def broken(rule: Callable[[Message], bool], *kinds: str) -> list[str]:
    return [f"{m.place}: {m.text}" for m in messages() if m.kind in kinds and not rule(m) and not is_numpys(m.text)]


NAMES = {"C", "CUDA", "NumPy", "Python", "Tensor", "Tensors", "Triton", "True", "False", "None"}


def begins_low(text: str) -> bool:
    word = re.match(r"[A-Za-z_]*", text)
    assert word
    return not text[0].isupper() or word[0].removesuffix("s") in NAMES or word[0].isupper() and "_" in word[0]


def test_errors_and_reasons_begin_in_lower_case_or_with_a_name() -> None:
    assert not broken(lambda m: begins_low(m.text) or begins_as_numpys(m.text), "error", "reason")


def test_reasons_are_no_sentences() -> None:
    """The place follows: `print is not captured (heat.py:12). Python runs it; ...`."""
    assert not broken(lambda m: m.text[-1] != "." or ". " in m.text or begins_as_numpys(m.text), "reason")


def test_what_to_do_is_a_sentence() -> None:
    code = re.compile(r"npc?\.\w+|docs/")
    assert not broken(lambda m: m.text[-1] == "." and (not m.text[0].islower() or bool(code.match(m.text))), "hint")


AVOIDED = re.compile(
    r"\bnatively\b|\bbehind\b|\bseldom\b|(?<!there )\b(is|are) no\b|\bunsupported\b|\bfailed to\b|!(?!=)|  ", re.IGNORECASE
)


def test_words_that_are_avoided() -> None:
    assert not broken(lambda m: AVOIDED.search(m.text) is None, "error", "reason", "hint", "warning")


@cache
def inner_classes() -> frozenset[str]:
    """Classes that users have not heard of: names of two words or more, which the package does not give."""
    found = set()
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            found |= {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef)}
    return frozenset(name for name in found if re.match(r"[A-Z][a-z0-9]+[A-Z]", name) and not hasattr(npc, name)) - KNOWN_OUTSIDE


KNOWN_OUTSIDE = {"ArrayType", "SystemError"}


def test_classes_of_this_package_are_not_named() -> None:
    names = inner_classes()
    assert "PythonNumber" in names or len(names) > 50
    assert not broken(lambda m: names.isdisjoint(re.findall(r"\w+", m.text)), "error", "reason", "hint", "warning")


LONGEST = 250  # characters, without the values


def test_they_are_short() -> None:
    assert not broken(lambda m: len(m.text) <= LONGEST, "error", "reason", "hint", "warning")


NOTHING = re.compile(r"\bnone is given\b|\bhas no arrays\b")  # is given


def test_errors_of_wrong_arguments_say_what_was_given() -> None:
    """In the functions that users call."""
    public = re.compile(r"npcompile/\w+\.py")
    errors = [m for m in messages() if m.error in ("TypeError", "ValueError") and public.match(m.place)]
    assert len(errors) > 50
    assert not [f"{m.place}: {m.text}" for m in errors if GIVEN not in m.text and not NOTHING.search(m.text)]


def test_what_is_wrong_is_found(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(
        """
def f(x):
    raise TypeError(f"f takes {x!r}" + " alone")
    raise Decline("one", "Two.")
    warn_once("three")
    raise ValueError(x)
"""
    )
    found = [*of_file(tmp_path / "m.py", tmp_path)]
    assert [(m.kind, m.text, m.error) for m in found] == [
        ("error", "f takes {} alone", "TypeError"),
        ("reason", "one", "Decline"),
        ("hint", "Two.", "Decline"),
        ("warning", "three", "warn_once"),
    ]
    assert begins_low("a {}") and begins_low("NumPy warns") and begins_low("{} is") and not begins_low("Wrong")
    assert AVOIDED.search("it runs natively") and AVOIDED.search("x is no array") and not AVOIDED.search("there is no array")
    assert is_numpys("axis {} is out of bounds for array of dimension {}") and not is_numpys("a NumPy of another planet {}")

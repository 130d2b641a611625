"""The IR is data: no field holds what only Python knows, and text is for names of ops, hints and files."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from npcompile.tensor_core.loop_ir.ops import Constant, Let, Place, Program, Return
from npcompile.tensor_core.loop_ir.parser import parse_program
from npcompile.tensor_core.loop_ir.printer import print_program
from npcompile.tensor_core.loop_ir.states import Fixed, Use
from npcompile.tensor_core.loop_ir.types import F64, FLOAT

FOLDER = Path(__file__).resolve().parents[2] / "tensor_core/loop_ir"
FILES = sorted(FOLDER.glob("*.py"))
NOT_DATA = {"Any", "Callable", "object"}
MAY_BE_TEXT = {"op", "name", "file", "names", "reason"}  # a reason is of an error or a pass
READS_TEXT = {"parser", "forms"}  # the one knows the printed text, the other names of fields
FORBIDDEN = {"Raw", "Text", "Opaque", "Verbatim"}


def fields(tree: ast.Module) -> list[tuple[str, ast.expr]]:
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    return [
        (node.target.id, node.annotation)
        for each in classes
        for node in each.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    ]


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_fields_are_data(path: Path) -> None:
    tree = ast.parse(path.read_text())
    for name, annotation in fields(tree):
        named = {node.id for node in ast.walk(annotation) if isinstance(node, ast.Name)}
        assert not named & NOT_DATA, (name, ast.unparse(annotation))
        assert "str" not in named or name in MAY_BE_TEXT or path.stem in READS_TEXT, name
        assert "list[str]" not in ast.unparse(annotation) or path.stem in READS_TEXT, name
    assert not {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)} & FORBIDDEN
    assert not [
        node for node in ast.walk(tree) if isinstance(node, ast.Import) and any(alias.name == "re" for alias in node.names)
    ]


@pytest.mark.parametrize("value", [0.0, -0.0, 1e-320, float("inf"), -float("inf"), 0.1, 1.7976931348623157e308])
def test_numbers_are_read_back_to_the_bit(value: float) -> None:
    program = Program("f", "f.py")
    one = program.new(FLOAT, "one")
    program.body = [Constant(one, value, Place("g.py", 3)), Return(Fixed(None))]
    (constant, _) = parse_program(print_program(program)).body
    assert isinstance(constant, Constant) and isinstance(constant.value, float)
    assert constant.value.hex() == value.hex() and constant.at == Place("g.py", 3)


def test_a_program_prints_like_python() -> None:
    program = Program("f", "f.py")
    x = program.new(F64, "x")
    y = program.new(F64)
    program.body = [Constant(x, 2.0, Place("f.py", 2)), Let(y, "add", [x, x], Place("f.py", 3)), Return(Use(y))]
    assert print_program(program) == (
        "def f():  # f.py\n    x_0: f64 = constant(2.0)  # 2\n    v1: f64 = add(x_0, x_0)  # 3\n    return v1\n"
    )

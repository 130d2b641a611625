"""Type checkers see what Tensors and transforms are, in a user's program."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from npcompile import Tensor
from npcompile.tensor_core.tensors.memory import MemoryAccess

ROOT = Path(__file__).resolve().parent.parent
USES = ROOT / "tests/typing_examples/uses.py"
STUB = ROOT / "tensor_core/tensors/signatures.pyi"


def refused() -> list[int]:
    return [number for number, line in enumerate(USES.read_text().splitlines(), 1) if line.endswith("# error")]


def run(*command: str) -> str:
    """What a type checker prints of the installed package and a program beside it."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MYPYPATH": str(ROOT)}
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, cwd="/", env=environment).stdout


def test_mypy_sees_them(tmp_path: Path) -> None:
    options = ("--config-file=", f"--cache-dir={tmp_path}", "--follow-imports=silent", "--ignore-missing-imports")
    said = run("-m", "mypy", *options, str(USES))
    found = re.findall(r"uses\.py:(\d+): error: (.*)", said)
    assert [int(line) for line, _ in found] == refused(), said


@pytest.mark.skipif(importlib.util.find_spec("basedpyright") is None, reason="basedpyright is not installed: CI installs it")
def test_pyright_sees_them(tmp_path: Path) -> None:
    settings = {"include": [str(USES)], "typeCheckingMode": "standard", "extraPaths": [str(ROOT)], "pythonVersion": "3.11"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    said = run("-m", "basedpyright", "--project", str(tmp_path), "--outputjson")
    errors = [each for each in json.loads(said)["generalDiagnostics"] if each["severity"] == "error"]
    lines = [each["range"]["start"]["line"] + 1 for each in errors if each["file"] == str(USES)]
    assert sorted({*lines}) == refused(), said


def signatures() -> dict[str, list[str]]:
    (kind,) = (x for x in ast.parse(STUB.read_text()).body if isinstance(x, ast.ClassDef))
    return {
        x.name: [arg.arg for arg in (*x.args.posonlyargs, *x.args.args, *x.args.kwonlyargs) if arg.arg != "self"]
        for x in kind.body
        if isinstance(x, ast.FunctionDef)
    }


def test_the_signatures_are_those_of_the_class() -> None:
    """All that is put on the class when it is imported, with the parameters that it has."""
    own = {name for kind in (MemoryAccess, *MemoryAccess.__mro__) for name in vars(kind)}
    nodes = list(ast.walk(ast.parse(inspect.getsource(Tensor))))
    source = {x.name for x in nodes if isinstance(x, ast.FunctionDef)}
    source |= {x.id for node in nodes if isinstance(node, ast.Assign) for x in node.targets if isinstance(x, ast.Name)}
    put_on = {name for name, value in vars(Tensor).items() if callable(value) and name not in source | own | {"__doc__"}}
    put_on |= {"__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"}
    told = signatures()
    assert set(told) == put_on
    for name, parameters in told.items():
        if not name.startswith("__"):
            there = inspect.signature(getattr(Tensor, name)).parameters.values()
            names = [each.name for each in there if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)][1:]
            assert parameters == names[: len(parameters)], name  # newer NumPys have more

"""Who may import whom: one way down, no cycles of files or of folders, no bare folder names."""

from __future__ import annotations

import ast
import functools
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ("tensor_core", "numpy_shim", "backends")
MAY_IMPORT = {
    "npcompile": {"npcompile", "numpy_shim", "backends", "tensor_core"},
    "numpy_shim": {"numpy_shim", "tensor_core"},
    "backends": {"backends", "tensor_core"},
    "tensor_core": {"tensor_core"},
}
CUDA_ONLY = {"cupy", "cupyx", "triton"}  # 641 MB of extras: a machine without them imports everything else


@dataclass(frozen=True)
class Import:
    module: str  # who imports
    target: str  # full dotted name of what is imported
    line: int


def python_files(folder: Path) -> Iterator[Path]:
    """Every .py file below `folder`, through the links in npcompile/."""
    for directory, _, names in os.walk(folder, followlinks=True):
        yield from (Path(directory, name) for name in sorted(names) if name.endswith(".py"))


def package_sources() -> dict[str, str]:
    """Text of every module of the package, by dotted name."""
    sources = {}
    for path in python_files(ROOT / "npcompile"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        sources[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.read_text()
    return sources


def layer_of(name: str) -> str | None:
    """The layer that a dotted name is in. None outside npcompile."""
    parts = name.split(".")
    if parts[0] != "npcompile":
        return None
    return parts[1] if len(parts) > 1 and parts[1] in LAYERS else "npcompile"


def imports(module: str, text: str, is_module: set[str], is_package: bool = False) -> list[Import]:
    """All imports of one module, those inside functions and under TYPE_CHECKING included."""
    found = []
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import(names):
                found += [Import(module, alias.name, node.lineno) for alias in names]
            case ast.ImportFrom(base, names, level):
                package = module.split(".") if is_package else module.split(".")[:-1]
                origin = ".".join([*package[: len(package) - level + 1], *([base] if base else [])]) if level else base or ""
                for alias in names:
                    submodule = f"{origin}.{alias.name}"
                    found.append(Import(module, submodule if submodule in is_module else origin, node.lineno))
            case ast.Call(ast.Name("__import__") | ast.Attribute(attr="import_module"), [ast.Constant(str(name)), *_]):
                found.append(Import(module, name, node.lineno))
    return found


def violations(module: str, found: list[Import]) -> list[str]:
    """What in one module's imports breaks the layering."""
    layer = layer_of(module)
    problems = []
    for each in found:
        top, target = each.target.split(".")[0], layer_of(each.target)
        where = f"{module}:{each.line} imports {each.target}"
        if top in LAYERS:
            problems.append(f"{where}: a bare folder name, say npcompile.{each.target}")
        elif layer and target and target not in MAY_IMPORT[layer]:
            problems.append(f"{where}: {layer} may not import {target}")
        elif layer == "tensor_core" and target is None and top not in sys.stdlib_module_names | {"numpy"}:
            problems.append(f"{where}: tensor_core imports NumPy and the standard library alone")
        elif layer and top == "torch":
            problems.append(f"{where}: npcompile needs no torch")
        elif layer and top in CUDA_ONLY and "cuda" not in module:
            problems.append(f"{where}: only the CUDA files import it")
    return problems


def cycles(arrows: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules that reach each other (Tarjan's strongly connected components)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(name: str) -> None:
        order[name] = lowest[name] = len(order)
        stack.append(name)
        for target in sorted(arrows.get(name, ())):
            if target not in order:
                visit(target)
            if target in stack:
                lowest[name] = min(lowest[name], lowest[target])
        if lowest[name] == order[name]:
            group = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(group) > 1 or name in arrows.get(name, ()):
                found.append(group)

    for name in sorted(arrows):
        if name not in order:
            visit(name)
    return found


def all_imports(sources: dict[str, str]) -> dict[str, list[Import]]:
    packages = {name.rpartition(".")[0] for name in sources}
    return {name: imports(name, text, set(sources), name in packages) for name, text in sources.items()}


@functools.cache
def package_imports() -> dict[str, list[Import]]:
    return all_imports(package_sources())


def package_arrows() -> dict[str, set[str]]:
    """Modules of the package -> those that each imports."""
    found = package_imports()
    return {name: {each.target for each in imported if each.target in found} for name, imported in found.items()}


def test_imports_point_down() -> None:
    found = package_imports()
    assert {layer_of(name) for name in found} == {"npcompile", *LAYERS}, "a link in npcompile/ is missing"
    assert not [problem for name, each in found.items() for problem in violations(name, each)]


def test_no_module_reaches_itself() -> None:
    assert not cycles(package_arrows())


def between(folder: str, arrows: dict[str, set[str]]) -> dict[str, set[str]]:
    """The same arrows between what lies in a folder: its files, and its folders as a whole."""

    def part(name: str) -> str:
        return ".".join(name.split(".")[: folder.count(".") + 2])

    inside = {name: {t for t in targets if t.startswith(f"{folder}.")} for name, targets in arrows.items()}
    parts: dict[str, set[str]] = {}
    for name, targets in inside.items():
        if name.startswith(f"{folder}."):
            parts.setdefault(part(name), set()).update({part(t) for t in targets} - {part(name)})
    return parts


def test_no_folder_reaches_itself() -> None:
    arrows = package_arrows()
    folders = {name.rpartition(".")[0] for name in arrows} - {""}
    assert not [cycle for folder in sorted(folders) for cycle in cycles(between(folder, arrows))]


def test_nothing_imports_a_bare_folder() -> None:
    problems = []
    for folder in ("tests", "benchmarks", "examples"):
        for path in python_files(ROOT / folder):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            problems += violations(name, imports(name, path.read_text(), set()))
    assert not problems


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("npcompile.tensor_core.meta", "import npcompile"),
        ("npcompile.tensor_core.meta", "from npcompile.backends.registry import CompiledGraph"),
        ("npcompile.tensor_core.meta", "import scipy.linalg"),
        ("npcompile.tensor_core.ops.leaves", "from ... import api"),
        ("npcompile.backends.eager", "from npcompile import numpy_shim"),
        ("npcompile.backends.eager", "def f():\n    from npcompile.numpy_shim import linalg"),
        ("npcompile.backends.eager", "if TYPE_CHECKING:\n    from npcompile.frame import Frame"),
        ("npcompile.numpy_shim.linalg", "import npcompile.backends.eager"),
        ("npcompile.numpy_shim.linalg", "import tensor_core.graph"),
        ("npcompile.frame", "import importlib\nimportlib.import_module('backends')"),
        ("npcompile.frame", "import torch"),
        ("npcompile.backends.eager", "import cupy"),
        ("tests.test_frame", "from backends import eager"),
    ],
)
def test_a_wrong_import_is_seen(module: str, text: str) -> None:
    known = {"npcompile.numpy_shim", "npcompile.backends.eager", "npcompile.api"}
    assert violations(module, imports(module, text, known))


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("npcompile.frame", "from npcompile import backends, numpy_shim, tensor_core"),
        ("npcompile.backends.cuda.driver", "import cupy, triton"),
        ("npcompile.backends.eager", "from npcompile.tensor_core.graph import Graph"),
        ("npcompile.tensor_core.meta", "import numpy.linalg\nfrom dataclasses import dataclass"),
    ],
)
def test_a_right_import_passes(module: str, text: str) -> None:
    assert not violations(module, imports(module, text, {"npcompile.backends", "npcompile.numpy_shim", "npcompile.tensor_core"}))


def test_cycles_are_found() -> None:
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]
    assert not cycles({"a": {"b", "c"}, "b": {"c"}, "c": set()})


def test_folders_that_reach_each_other_are_found() -> None:
    arrows = {"a.x.one": {"a.y"}, "a.y": {"a.x.two"}, "a.x.two": set(), "a.x": set()}
    assert not cycles(arrows)
    assert cycles(between("a", arrows)) == [["a.x", "a.y"]]

"""Numbers about the text of the product that may only fall. `python -m tests.test_ratchets` writes down those that fell.

They count what stands between the code and one compiler with a typed IR: text that is read back, target text above the backends,
names of instructions outside one place, and size.
"""

from __future__ import annotations

import ast
import functools
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.test_layering import package_sources

FILE = Path(__file__).with_name("ratchets.json")
READS_TEXT = {"compile", "fullmatch", "match", "search", "sub", "subn", "findall", "finditer", "split"}
LOOP_COMPILER = ("npcompile.tracer.native", "npcompile.backends.cpu.loops")
OPCODES = re.compile(
    r"(LOAD|STORE|DELETE|BUILD|BINARY|COMPARE|CALL|POP|PUSH|JUMP|FOR|RETURN|END|MAKE|UNPACK|COPY|SWAP|LIST|DICT|SET|MAP|IS|"
    r"CONTAINS|GET|SEND|YIELD|IMPORT|RAISE|RERAISE|CHECK|BEFORE|WITH|UNARY|PRECALL|RESUME|KW|CONVERT|FORMAT)"
    r"_[A-Z0-9_]+|CALL|SWAP|COPY|NOP|RESUME|PRECALL|SEND"
)
HAVE_OTHER_SOURCES = {"cuda", "test_toy_backend.py", "test_programs.py"}  # CUDA's, Python's, times'
C_TEXT = re.compile(r"\b(int64_t|uint64_t|double|char)\b[ *]+\w+ = |for \(int|__attribute__|__builtin_|\bgoto \w|#pragma")


@functools.cache
def trees() -> dict[str, ast.Module]:
    return {name: ast.parse(text) for name, text in package_sources().items()}


def strings(tree: ast.Module) -> Iterator[str]:
    """The text in a module that is not a docstring."""
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value


def above_backends() -> Iterator[tuple[str, ast.Module]]:
    return ((name, tree) for name, tree in trees().items() if not name.startswith("npcompile.backends"))


def regular_expressions() -> int:
    """Calls of the module `re` in the product."""
    calls = (node.func for tree in trees().values() for node in ast.walk(tree) if isinstance(node, ast.Call))
    return sum(isinstance(f, ast.Attribute) and f.attr in READS_TEXT and ast.unparse(f.value) == "re" for f in calls)


def lines_of_the_loop_compiler() -> int:
    return sum(text.count("\n") for name, text in package_sources().items() if name.startswith(LOOP_COMPILER))


def files_with_c_above_the_backends() -> int:
    return sum(any(C_TEXT.search(text) for text in strings(tree)) for _, tree in above_backends())


def files_above_that_name_a_backend() -> int:
    named = ("npcompile.backends.cpu", "npcompile.backends.cuda")
    count = 0
    for _, tree in above_backends():
        imported = [n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)]
        count += any(module.startswith(named) for module in imported) or any(text in ("cuda", "cpu") for text in strings(tree))
    return count


def files_above_that_name_cuda() -> int:
    """Backends register what is theirs: the names of their devices and arrays too."""
    return sum(any(text == "cuda" or text.startswith("cuda:") for text in strings(tree)) for _, tree in above_backends())


def files_with_opcode_names() -> int:
    return sum(any(OPCODES.fullmatch(text) for text in strings(tree)) for _, tree in above_backends())


def places_that_ask_for_the_version() -> int:
    """Where the version of CPython decides."""
    asked = ("sys.version_info", "sys.hexversion")
    nodes = (node for tree in trees().values() for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    return sum(ast.unparse(node) in asked for node in nodes)


def files_over_500_lines() -> int:
    return sum(text.count("\n") > 500 for text in package_sources().values())


def fields_of_any_type() -> int:
    """Fields of the tracer's dataclasses of which the type says nothing: values of users that are asked. Others are `object`."""
    classes = (n for name, tree in trees().items() if name.startswith("npcompile.tracer") for n in ast.walk(tree))
    fields = (f for c in classes if isinstance(c, ast.ClassDef) and is_dataclass(c) for f in c.body)
    return sum(isinstance(f, ast.AnnAssign) and ast.unparse(f.annotation) == "Any" for f in fields)


def is_dataclass(node: ast.ClassDef) -> bool:
    return any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list)


def reads_of_generated_c() -> int:
    """Places in tests of the CPU's code that ask for its text. They ask passes, answers or the plan where these can tell."""
    paths = {p.relative_to(FILE.parent): p for p in FILE.parent.rglob("*.py")}
    paths = {name: path for name, path in paths.items() if name.parts[0] not in HAVE_OTHER_SOURCES}
    nodes = (node for path in paths.values() for node in ast.walk(ast.parse(path.read_text())))
    return sum(is_reading_c(node) for node in nodes)


def is_reading_c(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in ("native_sources", "sources_of")
    return isinstance(node, ast.Attribute) and node.attr in ("sources", "generated")


COUNTS: dict[str, Callable[[], int]] = {
    count.__name__.replace("_", " "): count
    for count in (
        regular_expressions,
        lines_of_the_loop_compiler,
        files_with_c_above_the_backends,
        files_above_that_name_a_backend,
        files_above_that_name_cuda,
        files_with_opcode_names,
        places_that_ask_for_the_version,
        files_over_500_lines,
        reads_of_generated_c,
        fields_of_any_type,
    )
}


@pytest.mark.parametrize("name", COUNTS)
def test_it_has_not_grown(name: str) -> None:
    stored, now = json.loads(FILE.read_text())[name], COUNTS[name]()
    assert now <= stored, f"{name}: {now}, and it was {stored}. Find the way that needs none more, or say in {FILE.name} why not."


def test_the_counts_count() -> None:
    tree = ast.parse('"""int64_t x = 3"""\nline = "int64_t x = 3;"\nname = "LOAD_FAST"\n')
    assert list(strings(tree)) == ["int64_t x = 3;", "LOAD_FAST"]
    assert OPCODES.fullmatch("LOAD_FAST_LOAD_FAST")
    assert not OPCODES.fullmatch("LOADED")
    assert all(
        is_reading_c(ast.parse(text, mode="eval").body) for text in ("native_sources(f)", "report.sources", "run.generated")
    )
    assert not is_reading_c(ast.parse("f(x)", mode="eval").body)
    assert all(count() > 0 for count in COUNTS.values() if count is not files_above_that_name_cuda)


def main() -> None:
    stored = json.loads(FILE.read_text()) if FILE.exists() else {}
    now = {name: count() for name, count in COUNTS.items()}
    for name, value in now.items():
        print(f"{name}: {stored.get(name, 'none')} -> {value}")
    FILE.write_text(json.dumps({name: min(value, stored.get(name, value)) for name, value in now.items()}, indent=2) + "\n")


if __name__ == "__main__":
    main()

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
def modules() -> dict[str, list[ast.AST]]:
    """All nodes of each module."""
    return {name: [*ast.walk(ast.parse(text))] for name, text in package_sources().items()}


def strings(nodes: list[ast.AST]) -> Iterator[str]:
    """The text in a module that is not a docstring."""
    docs = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value


@functools.cache
def above_backends() -> list[tuple[list[ast.AST], list[str]]]:
    """The nodes of each module there, and its strings."""
    return [(nodes, [*strings(nodes)]) for name, nodes in modules().items() if not name.startswith("npcompile.backends")]


def regular_expressions() -> int:
    """Calls of the module `re` in the product."""
    calls = (node.func for nodes in modules().values() for node in nodes if isinstance(node, ast.Call))
    return sum(isinstance(f, ast.Attribute) and f.attr in READS_TEXT and ast.unparse(f.value) == "re" for f in calls)


def lines_of_the_loop_compiler() -> int:
    return sum(text.count("\n") for name, text in package_sources().items() if name.startswith(LOOP_COMPILER))


def files_with_c_above_the_backends() -> int:
    return sum(any(map(C_TEXT.search, texts)) for _, texts in above_backends())


def files_above_that_name_a_backend() -> int:
    named = ("npcompile.backends.cpu", "npcompile.backends.cuda")
    count = 0
    for nodes, texts in above_backends():
        imported = [n.module or "" for n in nodes if isinstance(n, ast.ImportFrom)]
        count += any(module.startswith(named) for module in imported) or any(text in ("cuda", "cpu") for text in texts)
    return count


def files_above_that_name_cuda() -> int:
    """Backends register what is theirs: the names of their devices and arrays too."""
    return sum(any(text == "cuda" or text.startswith("cuda:") for text in texts) for _, texts in above_backends())


def files_with_opcode_names() -> int:
    return sum(any(map(OPCODES.fullmatch, texts)) for _, texts in above_backends())


def places_that_ask_for_the_version() -> int:
    """Where the version of CPython decides."""
    asked = ("sys.version_info", "sys.hexversion")
    attributes = (node for nodes in modules().values() for node in nodes if isinstance(node, ast.Attribute))
    return sum(node.attr in ("version_info", "hexversion") and ast.unparse(node) in asked for node in attributes)


def files_over_500_lines() -> int:
    return sum(text.count("\n") > 500 for text in package_sources().values())


def fields_of_any_type() -> int:
    """Fields of the tracer's dataclasses of which the type says nothing: values of users that are asked. Others are `object`."""
    classes = (n for name, nodes in modules().items() if name.startswith("npcompile.tracer") for n in nodes)
    fields = (f for c in classes if isinstance(c, ast.ClassDef) and is_dataclass(c) for f in c.body)
    return sum(isinstance(f, ast.AnnAssign) and ast.unparse(f.annotation) == "Any" for f in fields)


def is_dataclass(node: ast.ClassDef) -> bool:
    return any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list)


def reads_of_generated_c() -> int:
    """Places in tests of the CPU's code that ask for its text. They ask passes, answers or the plan where these can tell."""
    paths = {p.relative_to(FILE.parent): p for p in FILE.parent.rglob("*.py")}
    texts = [path.read_text() for name, path in paths.items() if name.parts[0] not in HAVE_OTHER_SOURCES]
    return sum(is_reading_c(node) for text in texts if MAY_READ_C.search(text) for node in ast.walk(ast.parse(text)))


MAY_READ_C = re.compile(r"native_sources|sources_of|\.\s*(sources|generated)\b")


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


def test_none_has_grown() -> None:
    now = {name: count() for name, count in COUNTS.items()}
    for cached in (modules, above_backends):  # millions of objects
        cached.cache_clear()
    grown = {name: (was, now[name]) for name, was in json.loads(FILE.read_text()).items() if now[name] > was}
    assert not grown, f"{grown} (before, now): find the way that needs none more, or say in {FILE.name} why not."
    assert all(number > 0 for name, number in now.items() if name != "files above that name cuda")


def test_the_counts_count() -> None:
    tree = ast.parse('"""int64_t x = 3"""\nline = "int64_t x = 3;"\nname = "LOAD_FAST"\n')
    assert list(strings([*ast.walk(tree)])) == ["int64_t x = 3;", "LOAD_FAST"]
    assert OPCODES.fullmatch("LOAD_FAST_LOAD_FAST")
    assert not OPCODES.fullmatch("LOADED")
    assert all(
        is_reading_c(ast.parse(text, mode="eval").body) for text in ("native_sources(f)", "report.sources", "run.generated")
    )
    assert not is_reading_c(ast.parse("f(x)", mode="eval").body)


def main() -> None:
    stored = json.loads(FILE.read_text()) if FILE.exists() else {}
    now = {name: count() for name, count in COUNTS.items()}
    for name, value in now.items():
        print(f"{name}: {stored.get(name, 'none')} -> {value}")
    FILE.write_text(json.dumps({name: min(value, stored.get(name, value)) for name, value in now.items()}, indent=2) + "\n")


if __name__ == "__main__":
    main()

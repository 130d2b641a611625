"""The pages of docs/architecture name files and functions that exist, in lines that can be read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs/architecture").glob("*.md"))
SOURCES = ("npcompile", "numpy_shim", "tensor_core", "backends", "tests", "benchmarks")
FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
QUOTED = re.compile(r"`([^`\n]+)`")
FOLDER = re.compile(r"In `([\w./]+/)`")
PATH = re.compile(r"[\w./{},*]*(?:/[\w./{},*]*|\w\.(?:py|c|h|md|json))")
NAME = re.compile(r"[a-z]\w*_\w+|[A-Z][a-z]+[A-Z]\w*")  # with an underscore or a capital inside: no word of prose
COMMAND = re.compile(r"python -m ([\w.]+)")
LONGEST = 140


def expanded(path: str) -> list[str]:
    """
    >>> expanded("a/{b,c}.py")
    ['a/b.py', 'a/c.py']
    """
    parts = re.split(r"\{([^}]*)\}", path)
    return ["".join(chosen) for chosen in product(*(p.split(",") if k % 2 else [p] for k, p in enumerate(parts)))]


def is_path(piece: str) -> bool:
    return PATH.fullmatch(piece) is not None and piece != "/"


def quoted(text: str) -> Iterator[tuple[int, str, str]]:
    """Each piece in back-quotes outside of blocks of code: its line, the folder that the last `In ...` named, and the piece."""
    folder = ""
    without_blocks = FENCE.sub(lambda block: "\n" * block[0].count("\n"), text)
    for number, line in enumerate(without_blocks.split("\n"), 1):
        if line.startswith("#"):
            folder = ""
        elif found := FOLDER.match(line):
            folder = found[1]
        for piece in QUOTED.findall(line):
            yield number, folder, piece


def missing_paths(text: str) -> list[str]:
    """Paths are from the root of the repository; after a line that begins "In `folder/`", names of files are from there."""
    return [
        f"line {number}: {path}"
        for number, folder, piece in quoted(text)
        if is_path(piece)
        for path in expanded(piece if "/" in piece else folder + piece)
        if not any(ROOT.glob(path.rstrip("/")))
    ]


def unknown_names(text: str, known: str) -> list[str]:
    return [
        f"line {number}: {name}"
        for number, _, piece in quoted(text)
        if not is_path(piece)
        for name in NAME.findall(piece)
        if name not in known
    ]


@pytest.fixture(scope="module")
def source() -> str:
    paths = (path for folder in SOURCES for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".c", ".h"))
    return "\n".join(path.read_text() for path in paths if path != Path(__file__))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_paths_exist(page: Path) -> None:
    assert not missing_paths(page.read_text())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_names_are_in_the_source(page: Path, source: str) -> None:
    assert not unknown_names(page.read_text(), source)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_exist(page: Path) -> None:
    modules = {name.replace(".", "/") for name in COMMAND.findall(page.read_text())}
    assert not [name for name in modules if not (ROOT / f"{name}.py").exists() and not (ROOT / name / "__main__.py").exists()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_lines_are_short(page: Path) -> None:
    lines = enumerate(page.read_text().split("\n"), 1)
    assert not [number for number, line in lines if len(line) > LONGEST]


def test_the_tour_is_short_and_leads_to_each_page() -> None:
    text = (ROOT / "docs/architecture/index.md").read_text()
    assert text.count("\n") <= 120
    (toctree,) = re.findall(r"```\{toctree\}\n:maxdepth: 1\n\n(.*?)```", text, re.DOTALL)
    assert {page.stem for page in PAGES} - {"index"} == {entry for entry in toctree.split() if "/" not in entry}


def test_what_is_missing_is_found() -> None:
    first, rest = "`npcompile/{compiler,gone}.py` `npcompile/tracer/`", "- `graph.py`, `away.py`\n\n## New\n\n`graph.py`\n"
    text = f"{first}\n\nIn `tensor_core/`:\n\n{rest}"
    assert missing_paths(text) == ["line 1: npcompile/gone.py", "line 5: tensor_core/away.py", "line 9: graph.py"]
    assert not missing_paths('```\n`gone.py`\n```\n`a / b`, `/`, `np.add`, `x.T`, `"a"`')
    assert unknown_names("`no_such_name(x)`, `NoSuch`, `known_name`, `plain`", "known_name") == [
        "line 1: no_such_name",
        "line 1: NoSuch",
    ]

"""Every example of the documentation runs and prints what its page says; every other piece of Python at least compiles."""

from __future__ import annotations

import ast
import doctest
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
VARIABLE = re.compile(r"\bNPCOMPILE_[A-Z]+(?:_[A-Z]+)*\b")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
README = "../README.md"


def blocks(page: str, language: str) -> Iterator[tuple[int, str]]:
    """The pieces of a page in a language, each with the line before it."""
    text = (DOCS / page).read_text()
    for found in BLOCK.finditer(text):
        if found[1] == language:
            yield text[: found.start(2)].count("\n"), found[2]


@pytest.mark.parametrize("page", [page for page in PAGES if any(blocks(page, "pycon"))])
def test_examples(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All examples of a page are one session, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    runner, names, said = doctest.DocTestRunner(optionflags=FLAGS), dict[str, object](__name__="page"), list[str]()
    for line, text in blocks(page, "pycon"):
        example = doctest.DocTestParser().get_doctest(text, names, f"{page} line {line}", str(DOCS / page), line)
        example.globs = names
        runner.run(example, out=said.append, clear_globs=False)
    assert runner.tries
    assert not runner.failures, "".join(said)


@pytest.mark.parametrize("page", [page for page in (*PAGES, README) if any(blocks(page, "python"))])
def test_python_is_python(page: str) -> None:
    for line, text in blocks(page, "python"):
        try:
            ast.parse(text)
        except SyntaxError as error:
            pytest.fail(f"{page}, line {line + (error.lineno or 0)}: {error.msg}")


def test_each_variable_of_the_environment_is_on_the_page_of_settings() -> None:
    product = DOCS.parent / "npcompile"
    sources = [Path(folder, name) for folder, _, names in os.walk(product, followlinks=True) for name in names]
    named = {found for path in sources if path.suffix in (".py", ".c", ".h") for found in VARIABLE.findall(path.read_text())}
    assert named == set(VARIABLE.findall((DOCS / "reference/settings.md").read_text()))


def test_the_page_about_accuracy_is_what_its_command_would_write() -> None:
    """All of it that is not measured."""
    written = (DOCS / "accuracy.md").read_text()
    for paragraph in (DOCS.parent / "tests/accuracy/page.md").read_text().split("\n\n"):
        assert "{" in paragraph or paragraph.strip() in written, paragraph

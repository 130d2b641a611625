"""The files that hosts and tools read are well formed, and name what there is."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"))


def loaded(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def commands(workflow: Any) -> list[str]:
    return [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_name_files_and_modules_that_exist(path: Path) -> None:
    workflow = loaded(path)
    assert workflow["permissions"] == {"contents": "read"}
    words = [word for command in commands(workflow) for word in command.split()]
    for word in words:
        if re.fullmatch(r"(tests|examples|docs)/[\w/.]+", word):
            assert (ROOT / word).exists(), word
    matrices = [job["strategy"]["matrix"] for job in workflow["jobs"].values() if "strategy" in job]
    called = [word for matrix in matrices for command in matrix.get("command", ()) for word in command.split()] + words
    for word in called:
        if re.fullmatch(r"(tests|benchmarks)(\.\w+)*", word):
            place = ROOT / word.replace(".", "/")
            assert place.with_suffix(".py").exists() or place.is_dir(), word


def test_workflows_cover_what_is_promised() -> None:
    text = "\n".join(path.read_text() for path in WORKFLOWS)
    for what in (
        "ubuntu-24.04-arm",
        "macos-14",
        "clang-16",
        "gcc-14",
        "tests.sanitizers",
        "schedule",
        "twine check",
        "sphinx -W",
    ):
        assert what in text, what
    versions = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', (ROOT / "pyproject.toml").read_text())
    assert loaded(ROOT / ".github/workflows/tests.yml")["jobs"]["pythons"]["strategy"]["matrix"]["python"] == versions


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_forms_ask_for_what_is_needed(path: Path) -> None:
    form = loaded(path)
    fields = {each["id"]: each for each in form["body"]}
    assert form["name"] and form["description"] and fields
    assert any(each.get("validations", {}).get("required") for each in fields.values())


def test_tasks_run_the_tests_that_contributors_are_told_of() -> None:
    source = ast.parse((ROOT / "noxfile.py").read_text())
    (quick,) = (
        ast.literal_eval(x.value) for x in source.body if isinstance(x, ast.Assign) and ast.unparse(x.targets[0]) == "QUICK"
    )
    assert " ".join(quick) in (ROOT / "CONTRIBUTING.md").read_text()


def test_the_version_is_one() -> None:
    (version,) = re.findall(r'^__version__ = "(.*)"$', (ROOT / "npcompile/__init__.py").read_text(), re.MULTILINE)
    assert loaded(ROOT / "CITATION.cff")["version"] == version
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text()

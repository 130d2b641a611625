"""The corpus names what a change does to generated code."""

from __future__ import annotations

from pathlib import Path

from tests.runtime.corpus import OBJECT, Folder, differences


def test_differences_are_told_by_program(tmp_path: Path) -> None:
    for side, total in (("base", "a + b"), ("own", "b + a")):
        (tmp_path / side).mkdir()
        folder = Folder(tmp_path / side, True)
        for folder.program, text in (("one [f8]", "int x;"), ("one [f8]", f"return {total};"), ("two", "int y;")):
            folder.write(text)
    (tmp_path / "own" / "three 0.c").write_text("int z;")
    lines = list(differences(tmp_path / "base", tmp_path / "own"))
    assert [line for line in lines if line.startswith("+++")] == ["+++ own/one [f8] 1.c", "+++ own/three 0.c"]
    assert {"-return a + b;", "+return b + a;", "+int z;"} <= set(lines)


def test_equal_units_are_written_once_by_digest(tmp_path: Path) -> None:
    folder = Folder(tmp_path, False)
    for text in ("int x;", "int x;", "int y;"):
        folder.write(text)
    assert len(list(tmp_path.iterdir())) == 2


def test_names_by_addresses_are_no_difference() -> None:
    assert OBJECT.sub("NAME", "if type(x) is list_7f3a5c2d1e80: # at 0x7f3a") == "if type(x) is NAME: # at NAME"

"""The line that says that a program waits for a compiler."""

from __future__ import annotations

import io
import sys

import pytest

import npcompile as npc
from npcompile.backends import progress
from npcompile.backends.cpu.process import run
from npcompile.backends.errors import CompilerTimeout


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def watched(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Standard error, from within a test: pytest sets its own one before."""
    made = Terminal()
    monkeypatch.setattr(sys, "stderr", made)
    monkeypatch.setattr(progress, "AFTER", 0.05)
    monkeypatch.setattr(progress, "EVERY", 0.05)
    monkeypatch.setattr(progress, "status_of_rich", lambda text: None)
    return made


def waits() -> str:
    return run(["sh", "-c", "sleep 0.3; echo done"], "", timeout=30)


def test_it_is_shown_on_a_terminal_and_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = watched(monkeypatch)
    assert waits() == "done\n"
    assert "npcompile: waiting for the C compiler, 0." in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_nothing_is_shown_of_what_is_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = watched(monkeypatch)
    assert run(["echo", "done"], "", timeout=30) == "done\n"
    assert terminal.getvalue() == ""


def test_nothing_is_shown_where_nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = watched(monkeypatch)
    monkeypatch.setattr(terminal, "isatty", lambda: False)
    waits()
    with npc.config.patch(progress=False):
        monkeypatch.setattr(terminal, "isatty", lambda: True)
        waits()
    assert terminal.getvalue() == ""


def test_the_setting_shows_it_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = watched(monkeypatch)
    monkeypatch.setattr(terminal, "isatty", lambda: False)
    with npc.config.patch(progress=True):
        waits()
    assert "waiting for the C compiler" in terminal.getvalue()
    with pytest.raises(ValueError, match="progress is True, False or None, not 3"):
        npc.config.progress = 3  # type: ignore[assignment]


def test_rich_shows_it_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = watched(monkeypatch)
    said: list[str] = []

    class Status:
        def update(self, text: str) -> None:
            said.append(text)

        def stop(self) -> None:
            said.append("stopped")

    monkeypatch.setattr(progress, "status_of_rich", lambda text: Status())
    waits()
    assert said[0].startswith("npcompile: waiting") and said[-1] == "stopped" and terminal.getvalue() == ""


def test_a_compiler_that_takes_too_long_is_stopped() -> None:
    with pytest.raises(CompilerTimeout, match=r"was stopped after 0\.2 s"):
        run(["sleep", "5"], "", timeout=0.2)

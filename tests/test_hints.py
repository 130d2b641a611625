"""A function that gained nothing from compiling says so once, where, and what may be done. Times are made up here."""

import logging
import warnings

import numpy as np
import pytest

import npcompile as npc
from npcompile.tracer.profitability import WORTH_A_HINT
from tests.tracer.calls.made_up_times import CALLS, Clock, is_aside


@pytest.fixture(autouse=True)
def measured():
    with npc.config.patch(tiers="measured"):
        yield


def hints(caplog, monkeypatch, function, plain, compiled):
    Clock(monkeypatch, lambda state, is_plain: plain if is_plain else compiled)
    with caplog.at_level(logging.WARNING, "npcompile.hints"), warnings.catch_warnings():
        warnings.simplefilter("error")  # a hint is no warning: programs in which warnings are errors go on
        for _ in range(2 * CALLS):
            function(np.ones(3))
    return [record.getMessage() for record in caplog.records if record.name == "npcompile.hints"]


def chatty():
    def mean(x):
        y = x - 1
        print(end="")
        return y.mean()

    return npc.compile(mean)


def test_the_first_break_and_its_line(caplog, monkeypatch):
    mean = chatty()
    line = mean.__wrapped__.__code__.co_firstlineno
    (hint,) = hints(caplog, monkeypatch, mean, 1.0, 2.0)
    assert is_aside(mean)
    assert hint.startswith(f"chatty.<locals>.mean (test_hints.py:{line}) was no faster compiled")
    assert hint.endswith(f"print is not captured (test_hints.py:{line + 2}). Python runs it; the graph resumes after it.")


def test_without_a_break(caplog, monkeypatch):
    (hint,) = hints(caplog, monkeypatch, npc.compile(lambda x: x @ x + 1), 2e-3, 4e-3)
    assert "NumPy's own functions take the time" in hint


def test_none_where_compiling_pays(caplog, monkeypatch):
    assert not hints(caplog, monkeypatch, chatty(), 2.0, 1.0)


def test_none_for_short_calls(caplog, monkeypatch):
    mean = chatty()
    assert not hints(caplog, monkeypatch, mean, 0.5 * WORTH_A_HINT, WORTH_A_HINT)
    assert is_aside(mean)

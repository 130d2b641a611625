"""Calls that take as long as a test says."""

from __future__ import annotations

from npcompile.compiler import compiled_function
from npcompile.tracer import profitability
from npcompile.tracer.profitability import COMPILED, MANY, PLAIN, Trial

CALLS = 2 * MANY + 2  # after which each kind has its verdict


class Clock:
    """What calls take: seconds(state, is_plain)."""

    def __init__(self, monkeypatch, seconds):
        self.seconds, self.ways = seconds, []

        def timed(trial, run, state):
            is_plain = run is trial.function.plain
            trial.is_running = True
            try:
                result = run(*state)
            finally:
                trial.is_running = False
            self.ways.append(PLAIN if is_plain else COMPILED)
            return result, self.seconds(state, is_plain)

        monkeypatch.setattr(Trial, "timed", timed)
        monkeypatch.setattr(profitability, "overheads", lambda: (0.0, 0.0))
        monkeypatch.setattr(profitability, "BETWEEN", 0.0)  # the fewest calls between those that are timed again


def is_aside(function):
    return function.__code__ is compiled_function(function).current.aside

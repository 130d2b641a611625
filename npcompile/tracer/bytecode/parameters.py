"""The parameters of a function, as text: those of another with the same signature, and a call that hands them on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType
from typing import Any

HAS_REST, HAS_KEYWORDS = 0x04, 0x08  # flags of code with `*args` and with `**kwargs`


@dataclass(frozen=True, slots=True)
class Parameters:
    """Names of parameters by kind. `names` has them all, as the code's locals begin with them."""

    positional_only: tuple[str, ...]
    positional: tuple[str, ...]
    keyword_only: tuple[str, ...]
    rest: tuple[str, ...]  # the name after `*`, or none
    keywords: tuple[str, ...]  # the name after `**`, or none

    @staticmethod
    def of(code: CodeType) -> Parameters:
        counts = (
            code.co_posonlyargcount,
            code.co_argcount - code.co_posonlyargcount,
            code.co_kwonlyargcount,
            int(bool(code.co_flags & HAS_REST)),
            int(bool(code.co_flags & HAS_KEYWORDS)),
        )
        ends = [sum(counts[: k + 1]) for k in range(len(counts))]
        return known(*(code.co_varnames[end - count : end] for count, end in zip(counts, ends)))

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.positional_only, *self.positional, *self.keyword_only, *self.rest, *self.keywords)

    @property
    def are_positional(self) -> bool:
        """Is `function(*values)` the call with a value for each of `names`?"""
        return not (self.keyword_only or self.rest or self.keywords)

    @property
    def signature(self) -> str:
        """What stands between the parentheses of `def`, without defaults."""
        parts = [*self.positional_only, *(["/"] if self.positional_only else []), *self.positional]
        parts += [f"*{name}" for name in self.rest] or (["*"] if self.keyword_only else [])
        return ", ".join([*parts, *self.keyword_only, *(f"**{name}" for name in self.keywords)])

    def call(self, function: Callable[..., Any], *values: Any) -> Any:
        """Call `function` with a value for each of `names`."""
        given = dict(zip(self.names, values, strict=True))
        positional = [given[name] for name in (*self.positional_only, *self.positional)]
        named = {name: given[name] for name in self.keyword_only}
        for name in self.rest:
            positional += given[name]
        for name in self.keywords:
            named |= given[name]
        return function(*positional, **named)

    def handed_on(self, values: Sequence[str]) -> str:
        """What stands between the parentheses of a call that hands on `values`, one expression for each of `names`."""
        text = dict(zip(self.names, values, strict=True))
        parts = [text[name] for name in (*self.positional_only, *self.positional)]
        parts += [f"*{text[name]}" for name in self.rest]
        parts += [f"{name}={text[name]}" for name in self.keyword_only]
        return ", ".join([*parts, *(f"**{text[name]}" for name in self.keywords)])


@lru_cache(1024)
def known(*names: tuple[str, ...]) -> Parameters:
    """One object for all functions of the same parameters, as there are many of few."""
    return Parameters(*names)

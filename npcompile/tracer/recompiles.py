"""Why compiled programs do not fit a call: the guard that failed, and the value that it is about."""

from __future__ import annotations

import ast
import re
from typing import Any


def why_not(guards: tuple[str, ...], namespace: dict[str, Any], parameters: dict[str, Any], names: dict[str, str]) -> str | None:
    """The first of the guards that does not hold, as text, and the value that it is about. None where all hold.

    `names` are what the user calls parameters.
    """
    scope = namespace | parameters
    for guard in guards:
        try:
            if eval(guard, scope):
                continue
            asked = ast.parse(guard, mode="eval").body
            asked = asked.values[-1] if isinstance(asked, ast.BoolOp) else asked
            what = ""
            if isinstance(asked, ast.Compare):
                is_member = isinstance(asked.ops[0], (ast.In, ast.NotIn))
                text = ast.unparse(asked.comparators[0] if is_member else asked.left)
                what = f", but {text} is {shortened(eval(text, scope))}"
        except (AttributeError, KeyError, IndexError, TypeError, ValueError, ArithmeticError) as error:
            what = f", but it raises {type(error).__name__}: {error}"
        text = re.sub(r"\w+", lambda m: names.get(m[0], m[0]), f"{guard}{what}")
        return _CONSTANT_NAME.sub(r"\1", text)
    return None


_CONSTANT_NAME = re.compile(r"\bk_(\w+?)_\d+\b")


def shortened(value: Any) -> str:
    text = value.__qualname__ if isinstance(value, type) else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."

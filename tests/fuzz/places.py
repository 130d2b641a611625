"""Where a program finds its last parameter: by position or name, in a default, a global, an attribute, a variable around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

PLACES = ("position", "position", "keyword", "default", "global", "attribute", "cell")

SOURCES = {
    "position": "def program({all}):\n{body}",
    "keyword": "def program({others}*, {last}):\n{body}",
    "default": "def program({others}{last}=None):\n{body}",
    "global": "def program({others}):\n    global {last}\n{body}",
    "attribute": """class Holder:
    def program(self, {others}):
        {last} = self.{last}
{deep}

program = Holder().program""",
    "cell": """def around():
    {last} = None
    def program({others}):
        nonlocal {last}
{deep}
    return program

program = around()""",
}


def source_of(place: str, parameters: Sequence[str], body: Sequence[str]) -> str:
    *others, last = parameters
    return SOURCES[place].format(
        all=", ".join(parameters),
        others="".join(f"{name}, " for name in others),
        last=last,
        body="\n".join(f"    {line}" for line in body),
        deep="\n".join(f"        {line}" for line in body),
    )


def placed(place: str, function: Callable[..., Any], user: Any, name: str, arguments: Sequence[Any]) -> Callable[[], Any]:
    """A call of `function`, with the last argument where the program looks for it."""
    *others, last = arguments
    match place:
        case "position":
            return lambda: function(*arguments)
        case "keyword":
            return lambda: function(*others, **{name: last})
        case "default":
            function.__defaults__ = (last,)
    leave_there(place, user, name, last)
    return lambda: function(*others)


def leave_there(place: str, user: Any, name: str, value: Any) -> None:
    """What is outside of the function, and found there by `left_there`."""
    match place:
        case "global":
            user.__globals__[name] = value
        case "attribute":
            setattr(user.__self__, name, value)
        case "cell":
            cell_of(user, name).cell_contents = value


def left_there(place: str, user: Any, name: str) -> Any:
    """What is there after the call."""
    match place:
        case "global":
            return user.__globals__.get(name)
        case "attribute":
            return getattr(user.__self__, name)
        case "cell":
            try:
                return cell_of(user, name).cell_contents
            except ValueError:
                return "<empty>"
    return None


def cell_of(user: Any, name: str) -> Any:
    return user.__closure__[user.__code__.co_freevars.index(name)]

"""What modules below call and modules above define has one definition each, of the type that is declared."""

from __future__ import annotations

import inspect

import pytest

from npcompile.tracer import captured
from npcompile.tracer.forward import Forward
from npcompile.tracer.python import forward

DECLARED = {name: value for name, value in vars(forward).items() if isinstance(value, Forward)}


@pytest.mark.parametrize("name", DECLARED)
def test_each_has_a_definition(name: str) -> None:
    function = DECLARED[name].definition
    assert function is not None, f"{name} is declared in forward.py, and nothing defines it"
    annotation = forward.__annotations__[name].removeprefix("Final[").removesuffix("]")
    declared = getattr(forward, annotation, None) or eval(annotation, vars(forward))
    arguments = declared.__args__[0] if isinstance(declared.__args__[0], (tuple, list)) else declared.__args__[:-1]
    parameters = [p for p in inspect.signature(function).parameters.values() if p.default is p.empty]
    assert len(parameters) == len(arguments), (name, annotation, parameters)


def test_one_definition_only() -> None:
    declared: Forward[[int], int] = Forward()
    with pytest.raises(AssertionError, match="not defined"):
        declared(1)

    @declared.defined
    def twice(x: int) -> int:
        return 2 * x

    assert declared(3) == 6
    with pytest.raises(AssertionError, match="defined before"):
        declared.defined(lambda x: x)


def test_what_is_captured_is_listed() -> None:
    assert sorted(captured.__all__) == captured.__all__
    assert all(inspect.ismodule(getattr(captured, name)) for name in captured.__all__)

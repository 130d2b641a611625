"""Which functions of a C text other text needs."""

import re

import pytest

from npcompile.backends.cpu import c_functions, lanes, vector_math
from npcompile.backends.cpu.c_definitions import called_in, needed_by


@pytest.mark.parametrize("definitions", [c_functions.definitions, lanes.definitions, vector_math.definitions])
def test_every_call_in_a_definition_is_found(definitions):
    for name, text in definitions().items():
        assert called_in(text) == set(re.findall(r"\w+(?=\()", text)), name
        assert name in called_in(text)


def test_needed_by_takes_what_definitions_call_themselves():
    definitions = {"inner": "inner(x)\n", "other": "other(x)\n", "outer": "outer(x) inner(x)\n"}
    assert needed_by("y = outer(inner_2[1]) * sizeof (double);", definitions) == (
        {"outer", "inner"},
        "inner(x)\nouter(x) inner(x)\n",
    )


def test_a_word_apart_from_the_parenthesis_is_not_called():
    assert called_in("if (a) f(g[1], (h)); é(2)") == {"f", "é"}

"""Calls that drawing found to differ from NumPy, each at its smallest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.shim.keywords.calls import Call, entries
from tests.shim.keywords.outcomes import check_call

ONES = np.ones(3)
MATRIX = np.arange(6.0).reshape(2, 3)
BOOLS = np.array([[True, True, True], [True, False, False]])

# name, arguments, keywords: what NumPy refuses, warns of, or does in another way than its documentation says.
DECLINED: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("add", [ONES, 1], {"subok": 1}),
    ("add", [ONES, 1], {"order": "nonsense", "out": np.zeros(3)}),
    ("tanh", [ONES], {"signature": None}),
    ("add", [ONES, 1], {"out": np.zeros(3, complex), "where": np.array([True, False, True]), "dtype": "d"}),
    ("modf", [ONES], {"out": None}),
    ("divmod", [ONES, 2.0], {"signature": "dd->d"}),
    ("sum", [ONES, None, None, (np.zeros(()),)], {}),
    ("sum", [np.float64(1), None, None, np.zeros(())], {}),
    ("sum", [ONES], {"dtype": "f4", "out": np.zeros((), complex)}),
    ("cumsum", [ONES], {"out": ...}),
    ("cumsum", [ONES], {"dtype": np.dtypes.Float64DType}),
    ("ndarray.any", [MATRIX, 0, np.zeros(3)], {}),
    ("ndarray.dot", [ONES, ONES, np.zeros(())], {}),
    ("ndarray.view", [ONES.astype(int)], {"dtype": None}),
    ("ndarray.view", [ONES + 1j], {"dtype": np.dtypes.Float64DType}),  # an instance of it is a dtype
    ("ndarray.view", [np.ones(2, np.longdouble)], {"dtype": complex}),  # some of its bytes are no part of a number
    ("unique", [[[[0, -6], [7, -9]], [[1, -3], [-7, -9]]]], {"axis": 1}),  # in another memory order
    ("ndarray.fill", [ONES], {"value": 2}),
    ("ndarray.clip", [np.float64(1)], {"out": np.zeros(())}),
    ("outer", [ONES, ONES, ...], {}),
    ("concatenate", [[np.arange(3, dtype="i4"), 1]], {"axis": None}),
    ("put", [ONES, np.array([1], np.uint64), 2.0], {}),
    ("putmask", [np.arange(3), np.array([True, False, True]), ONES], {}),
    ("partition", [ONES, ()], {}),
    ("round", [ONES, 400], {}),
    ("size", [ONES, (0, -1)], {}),
    ("arange", [None, 5], {}),
    ("array", [ONES], {"ndmax": 0}),
    ("full_like", [ONES, 1], {"subok": None}),
    ("full_like", [BOOLS, 2**70], {}),
    ("einsum", ["i,i", ONES, ONES], {"optimize": True, "order": None}),
    ("std", [np.float64(1)], {"where": np.array([[True]])}),
    ("maximum", [ONES, 2.0, np.zeros(3)], {}),  # a warning that it may have been meant as a third input
    ("_raw_fft", [ONES.astype("f"), 3, 0, False, True, None, np.zeros(3, complex)], {}),  # in the precision of the output
    ("result_type", [ONES, 3, str], {}),
]


@pytest.mark.parametrize(("name", "args", "keywords"), DECLINED, ids=[name for name, *_ in DECLINED])
def test_declined(name: str, args: list[Any], keywords: dict[str, Any]) -> None:
    assert not check_call(Call(entries()[name], args, keywords))


# What is captured, now as NumPy has it.
CAPTURED: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("pad", [np.array([5]), (1, 0)], {"mode": "wrap"}),  # one run of positions is not the array itself
    ("pad", [np.array([5]), (2, 1)], {"mode": "edge"}),
    ("einsum", ["ij,j,i->", BOOLS, BOOLS[0], np.array([3, 3])], {"optimize": True}),  # each pair has a dtype of its own
    ("einsum", ["ij,jk->ik", np.array([[1, 2, 3], [4, 5, 6]]), np.arange(6).reshape(3, 2).T.copy().T], {"optimize": "optimal"}),
    ("einsum", ["ij,j->", MATRIX, ONES], {"optimize": True, "order": "C"}),  # an array of no dimensions
    (
        "dot",
        [2, np.broadcast_to(np.arange(6, dtype="i1").reshape(3, 2), (2, 3, 2))],
        {},
    ),  # the memory order of the converted array
    ("dot", [np.array([np.nan, np.inf]), 0.0], {}),  # BLAS adds nothing then
    ("dot", [np.array([np.nan]), 0.0], {}),
    ("dot", [np.array([[np.nan], [1.0]]), np.array([[0.0]])], {}),
    ("round", [], {"a": MATRIX, "decimals": 1}),
    ("unpackbits", [np.asfortranarray(np.arange(12, dtype="B").reshape(2, 3, 2)), 0], {}),  # in the memory order of the bytes
    ("packbits", [np.asfortranarray(BOOLS), 1], {}),
]


@pytest.mark.parametrize(("name", "args", "keywords"), CAPTURED, ids=[name for name, *_ in CAPTURED])
def test_captured(name: str, args: list[Any], keywords: dict[str, Any]) -> None:
    assert check_call(Call(entries()[name], args, keywords))

"""Every elementwise op of the table x every loop of its ufunc x layout: dtype, shape, memory order and values are NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

from npcompile.tensor_core import OPS
from npcompile.tensor_core.dtypes import kind_of
from npcompile.tensor_core.ops.scalar import REPORTING
from npcompile.tensor_core.ops.special import FORMS
from tests.accuracy import reference
from tests.backends import BACKENDS
from tests.ops.table import BFLOAT16, DTYPES, LAYOUTS, apply_all, check_meta, numbers, some_layouts
from tests.shim.harness import same_values

UFUNC_ROWS = [name for name, op in OPS.items() if isinstance(op.numpy, np.ufunc)]
# A loop of exponents that may be negative raises; a shift by more than the width is undefined in C, not in NumPy.
NON_NEGATIVE_SECOND = {"power"}
# NumPy's vector loops round the parts of these, and overflow, where its scalar loops do not: their numbers are ordinary
# here, and what agrees to a few roundings of the whole number agrees.
COMPLEX_PRODUCTS = {"multiply", "divide", "square"}


def loops(ufunc: np.ufunc) -> list[tuple[np.dtype, ...]]:
    """Input dtypes of every loop over numbers, each once."""
    found = []
    for text in ufunc.types:
        inputs, outputs = text.split("->")
        if set(inputs + outputs) <= set("?bBhHiIlLqQefdFD"):
            found.append(tuple(np.dtype(c) for c in inputs))
    found += [(BFLOAT16,) * ufunc.nin, (BFLOAT16, np.dtype(np.int32))[: ufunc.nin]]  # loops that ml_dtypes registers
    return [dtypes for dtypes in dict.fromkeys(found) if has_loop(ufunc, dtypes)]


def has_loop(ufunc: np.ufunc, dtypes: tuple[np.dtype, ...]) -> bool:
    try:
        return ufunc.resolve_dtypes((*dtypes, None))[:-1] == dtypes
    except TypeError:
        return False


# Of complex numbers. The real part of "expm1" cancels, in float64 as NumPy's does.
NEARER_THAN_NUMPY = {(name, d) for name in ("exp2", "log1p", "reciprocal", "power", "float_power", "tan", "tanh") for d in "FD"}
NEARER_THAN_NUMPY |= {("expm1", "F")}
POWERS = ("power", "float_power")
CANCELLING = ("logaddexp", "logaddexp2")  # max(a, b) plus a term that may nearly cancel it


def same_to_larger_term(result: np.ndarray, expected: np.ndarray, operands: list[np.ndarray]) -> None:
    """Within 4 units in the last place of the largest number in the sum; infinities and NaN as they are."""
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(result[~finite], expected[~finite])
    largest = np.maximum.reduce([np.where(np.isfinite(x), np.abs(x), 0) for x in (*operands, expected)])[finite]
    error = np.abs(result[finite].astype(np.longdouble) - expected[finite])
    assert (error <= 4 * np.spacing(largest.astype(expected.dtype))).all(), (result, expected)


def close_powers(got: np.ndarray, expected: np.ndarray, z: np.ndarray, w: np.ndarray, ulp: float) -> None:
    """A power is the exponential of w log(z), whose last bit is abs(w log(z)) units of the result's, in its size and its angle.

    Where the angle is known, each part is a number, infinite, or not a number as NumPy's.
    """
    assert got.dtype == expected.dtype
    eps, tiny = float(np.finfo(z.dtype).eps), float(np.finfo(z.dtype).tiny)
    with np.errstate(all="ignore"):
        exponent = w.astype(complex) * np.log(z.astype(complex))
        is_known = ~(np.abs(exponent.imag) * eps > 0.01)
        ours, theirs, turn = (x.astype(complex) for x in (got, expected, np.exp(1j * exponent.imag)))
        for a, b, factor in ((ours.real, theirs.real, turn.real), (ours.imag, theirs.imag, turn.imag)):
            np.testing.assert_array_equal(np.isnan(a[is_known]), np.isnan(b[is_known]))
            np.testing.assert_array_equal(np.isinf(a[is_known]), np.isinf(b[is_known]))
            has_sign = is_known & np.isinf(a) & (np.abs(factor) > 0.01)
            np.testing.assert_array_equal(a[has_sign], b[has_sign])
        is_number = np.isfinite(ours) & np.isfinite(theirs)
        is_exact = is_known & is_number & ~np.isfinite(exponent)
        np.testing.assert_array_equal(ours[is_exact], theirs[is_exact])
        error = np.abs(ours - theirs) / np.maximum(np.abs(theirs), tiny) / eps / (1 + np.abs(exponent))
        assert error[is_known & is_number & ~is_exact].max(initial=0) <= ulp
        is_turned = ~is_known & np.isfinite(exponent) & (np.abs(exponent.real) < 80)
        np.testing.assert_allclose(np.abs(ours)[is_turned], np.abs(theirs)[is_turned], rtol=ulp * 81 * eps)


@pytest.mark.parametrize("name", UFUNC_ROWS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_ufunc_row(backend: str, name: str) -> None:
    ufunc = OPS[name].numpy
    rng = np.random.default_rng(7)
    calls = []
    for k, dtypes in enumerate(loops(ufunc)):
        chosen = some_layouts(backend, k + UFUNC_ROWS.index(name))
        for layout in LAYOUTS.values():
            arrays = [numbers(dtype, rng, ordinary=is_complex_product(name, dtype)) for dtype in dtypes]
            if layout not in chosen:
                continue
            if name in NON_NEGATIVE_SECOND and dtypes[1].kind == "i":
                arrays[1] = np.abs(arrays[1] % 7)
            calls.append((name, [layout(x) for x in arrays], {}))
    nodes, results = apply_all(backend, calls)
    for (_, arrays, _), node, result in zip(calls, nodes, results):
        with np.errstate(all="ignore"):
            expected = np.asarray(ufunc(*arrays))
        check_meta(node, expected, strides=True)
        assert result.dtype == expected.dtype and result.shape == expected.shape
        if (name, expected.dtype.char) in NEARER_THAN_NUMPY and backend == "cpu":
            expected = exact_complex(name, arrays, expected)
        try:
            if name in CANCELLING and expected.dtype != BFLOAT16:
                same_to_larger_term(result, expected, arrays)
            elif name in POWERS and expected.dtype.kind == "c" and backend == "cuda":
                close_powers(result, expected, *arrays, ulp=4)
            elif is_complex_product(name, expected.dtype):
                np.testing.assert_allclose(result, expected, rtol=4 * np.finfo(expected.dtype).eps)
            else:
                same_values(result, expected, ulp=4)
        except AssertionError as error:
            raise AssertionError(f"{name}{tuple(x.dtype.name for x in arrays)} strides {arrays[0].strides}: {error}") from None


def exact_complex(name: str, operands: list[np.ndarray], expected: np.ndarray) -> np.ndarray:
    """The exact results of finite numbers but zero; NumPy's of others, its infinities, and its zeros, which have a sign."""
    exact = expected.copy()
    for place in map(tuple, np.argwhere(np.isfinite(operands).all(0) & (operands[0] != 0))):
        xs = [x[place].reshape(1) for x in operands]
        is_below = xs[0].imag[0] == 0 and np.signbit(xs[0].imag[0])  # the cut: mpmath has zeros without a sign
        (number,) = reference.exact(name, *(x.conj() if is_below else x for x in xs))
        with np.errstate(over="ignore"):
            exact[place] = complex(number.conjugate() if is_below else number)
    is_out = ~np.isfinite(exact) | (exact == 0)
    for part, numpys in ((exact.real, expected.real), (exact.imag, expected.imag)):
        part[...] = np.where(np.isinf(numpys) | (np.isnan(numpys) & is_out) | ((numpys == 0) & (part == 0)), numpys, part)
    return exact


def is_complex_product(name: str, dtype: np.dtype) -> bool:
    return name in COMPLEX_PRODUCTS and dtype.kind == "c"


@pytest.mark.parametrize("backend", BACKENDS)
def test_mixed_layouts_keep_the_memory_order_of_numpy(backend: str) -> None:
    rng = np.random.default_rng(1)
    layouts = [layout for name, layout in LAYOUTS.items() if name not in ("empty", "0-D")]
    calls = [("add", [a(numbers(DTYPES[11], rng)), b(numbers(DTYPES[11], rng))], {}) for a in layouts for b in layouts]
    nodes, results = apply_all(backend, calls)
    for (_, (x, y), _), node, result in zip(calls, nodes, results):
        with np.errstate(all="ignore"):
            expected = x + y
        check_meta(node, expected, strides=True)
        same_values(result, expected, ulp=0)
        assert result.strides == expected.strides


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("source", DTYPES, ids=str)
@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_cast(backend: str, source: np.dtype) -> None:
    rng = np.random.default_rng(2)
    calls = []
    for k, target in enumerate(DTYPES):
        # What C does with a float that an integer cannot hold is not defined, in NumPy neither.
        ordinary = kind_of(source) in "fc" and target.kind in "iu"
        for layout in some_layouts(backend, k + DTYPES.index(source)):
            x = numbers(source, rng, ordinary=ordinary)
            if ordinary and target.kind == "u":
                x = abs(x).astype(source)
            calls.append(("cast", [layout(x)], {"dtype": target}))
    nodes, results = apply_all(backend, calls)
    for (_, (x,), params), node, result in zip(calls, nodes, results):
        with np.errstate(all="ignore"):
            expected = x.astype(params["dtype"])
        check_meta(node, expected)
        same_values(result, expected, ulp=0)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_where(backend: str, dtype: np.dtype) -> None:
    rng = np.random.default_rng(3)
    calls = [
        ("where", [layout(numbers(np.dtype(bool), rng)), layout(numbers(dtype, rng)), layout(numbers(dtype, rng))], {})
        for layout in LAYOUTS.values()
    ]
    nodes, results = apply_all(backend, calls)
    for (_, arrays, _), node, result in zip(calls, nodes, results):
        expected = np.where(*arrays)
        check_meta(node, expected, strides=True)
        same_values(result, expected, ulp=0)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("part", ["F", "D"])
def test_parts_of_complex_numbers(backend: str, part: str) -> None:
    rng = np.random.default_rng(4)
    for layout in LAYOUTS.values():
        z = layout(numbers(np.dtype(part), rng))
        nodes, (real, imag, joined) = apply_all(
            backend, [("real", [z], {}), ("imag", [z], {}), ("complex", [z.real, z.imag], {})]
        )
        for node, expected, result in zip(nodes, (z.real, z.imag, z), (real, imag, joined)):
            check_meta(node, expected)
            same_values(result, expected, ulp=0)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("source", "target"), ["dl", "Ld", "lL", "fi", "If", "eH", "bB", "?b", ("bfloat16", "H"), ("h", "bfloat16")]
)
def test_bitcast(backend: str, source: str, target: str) -> None:
    rng = np.random.default_rng(5)
    calls = [("bitcast", [layout(numbers(np.dtype(source), rng))], {"dtype": np.dtype(target)}) for layout in LAYOUTS.values()]
    nodes, results = apply_all(backend, calls)
    for (_, (x,), params), node, result in zip(calls, nodes, results):
        expected = np.ascontiguousarray(x).reshape(x.shape).view(params["dtype"])
        check_meta(node, expected)
        assert result.tobytes() == expected.tobytes()


def test_every_elementwise_row_is_tested() -> None:
    others = {name for name, op in OPS.items() if op.kind == "elementwise"} - set(UFUNC_ROWS)
    elsewhere = {"philox_low", "philox_high", "by_numpy", "laid_out"}  # test_random.py, tests/cpu/test_bitwise.py
    elsewhere |= {"zero_or_multiply", "zero_or_divide"}  # tests/gradients/test_not_taken.py
    elsewhere |= FORMS  # tests/cpu/test_special_functions.py
    assert others == {"cast", "where", "real", "imag", "complex", "bitcast"} | elsewhere | set(REPORTING.values())


def test_every_ufunc_of_numbers_with_one_output_is_a_row() -> None:
    ufuncs = {u for u in vars(np).values() if isinstance(u, np.ufunc) and u.nout == 1 and not u.signature}
    assert {u.__name__ for u in ufuncs if loops(u)} <= set(UFUNC_ROWS)


@pytest.mark.parametrize("name", UFUNC_ROWS)
def test_samples_lie_in_the_domain(name: str) -> None:
    op = OPS[name]
    rng = np.random.default_rng(6)
    for dtypes in loops(op.numpy):
        if dtypes[0].kind == "f":
            for arguments in op.samples(dtypes[0], rng):
                assert len(arguments) == op.numpy.nin
                with np.errstate(invalid="raise"):
                    op.numpy(*(x.astype(d) for x, d in zip(arguments, dtypes)))

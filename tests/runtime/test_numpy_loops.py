"""Inner loops of NumPy's ufuncs, called by generated C: the same bits as the ufunc's, and no noted error is forgotten."""

from __future__ import annotations

import numpy as np
import pytest

from npcompile.backends.cpu.c_definitions import called_in
from npcompile.backends.cpu.c_functions import TYPE_TEXT
from npcompile.backends.cpu.numpy_loops import loop_of, loops_by_types, loops_text
from npcompile.backends.registry import FloatingPointSignal
from tests.runtime.units import returning

ALL = {f.__name__: f for f in vars(np).values() if isinstance(f, np.ufunc)}
UFUNCS = [f for f in ALL.values() if f.signature is None and f.nout == 1 and f.nin <= 2]
FOUND = [(f, types) for f in UFUNCS for types in loops_by_types(f)]

# args: the number of the loop, arrays of one length -> None, after the loop has filled the last of them
CALL = """
  int64_t number, strides[8];
  if (rt->as_int64(args[0], &number)) return 0;
  char* operands[8];
  for (int k = 1; k < nargs; k++) {
    const npc_array* array = (npc_array*)args[k];
    operands[k - 1] = array->data;
    strides[k - 1] = array->nd ? array->strides[0] : 0;
  }
  const npc_array* last = (npc_array*)args[nargs - 1];
  rt->run_numpy_loop(&npc_numpy_loops[number], operands, last->nd ? last->dimensions[0] : 1, strides);
  result = args[nargs - 1];
  rt->incref(result);
"""


def numbers(letter: str, count: int, rng: np.random.Generator) -> np.ndarray:
    """Of many sizes and both signs, with zeros, infinities and NaN."""
    dtype = np.dtype(letter)
    parts = [rng.standard_normal(count) * 10.0 ** rng.integers(-4, 5, count) for _ in range(1 + (dtype.kind == "c"))]
    for part in parts:
        part[:8] = rng.permutation([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 2.0])
    with np.errstate(all="ignore"):
        return parts[0].astype(dtype) if len(parts) == 1 else (parts[0] + 1j * parts[1]).astype(dtype)


def bits(x: np.ndarray) -> list[bytes]:
    """Of each number. What fills up a long double says nothing."""
    return [one.tobytes()[: 10 if x.dtype.char == "g" else None] for one in x]


def named(ufunc: np.ufunc, types: str) -> str:
    return f"npc_numpy_loop_{ufunc.__name__}_{types}"


@pytest.fixture(scope="module")
def call(loader):
    text = loops_text([named(*found) for found in FOUND])
    return loader.load(TYPE_TEXT + text + returning(CALL), []).call


# In the order in which a unit has them.
ORDERED = sorted(FOUND, key=lambda found: named(*found))


@pytest.mark.parametrize("step", [1, 3, -1])
def test_loops_have_the_bits_of_their_ufuncs(call, step):
    rng = np.random.default_rng(step % 7)
    for number, (ufunc, types) in enumerate(ORDERED):
        operands = [numbers(letter, 300, rng)[::step] for letter in types[:-1]]
        for count in (1, 7, 100):
            given, out = [x[:count] for x in operands], np.empty(count, types[-1])
            with np.errstate(all="ignore"):
                expected = ufunc(*given, signature=tuple(map(np.dtype, types)))
            call(number, *given, out)
            assert bits(out) == bits(expected), (ufunc, types, count)


def test_one_number_is_as_the_ufunc_of_a_scalar(loader):
    rng = np.random.default_rng(5)
    one = "double x; if (rt->as_double(args[0], &x)) return 0; "
    for ufunc, call in (
        (np.exp, "npc_numpy_one_exp_dd(x)"),
        (np.power, "npc_numpy_one_power_ddd(x, 2.0)"),
        (np.hypot, "npc_numpy_one_hypot_ddd(x, 3)"),
    ):
        text = returning(f"{one} result = rt->from_double({call});")
        run = loader.load(TYPE_TEXT + loops_text(called_in(text)) + text, []).call
        others = {np.exp: (), np.power: (2.0,), np.hypot: (3.0,)}[ufunc]
        for x in rng.standard_normal(20):
            assert run(x)[0].hex() == float(ufunc(x, *others)).hex()


def test_errors_found_before_stay_noted(loader):
    """NumPy's loop of maximum forgets all that is noted, as what it compares with NaN notes an error that is none."""
    text = returning("""
  double x = 1, y = 2;
  double larger;
  volatile double zero = 0, one = 1;
  rt->watch();
  one = one / zero;
  char* operands[] = {(char*)&x, (char*)&y, (char*)&larger};
  const int64_t strides[3] = {0};
  npc_numpy_loop_maximum_ddd(operands, 1, strides);
  if (rt->report(1, 0, 0)) return 0;
  result = rt->from_bool(1);
""")
    run = loader.load(TYPE_TEXT + loops_text(called_in(text)) + text, []).call
    with np.errstate(divide="warn"), pytest.raises(FloatingPointSignal):
        run()


def test_loops_are_found_by_dtypes():
    assert loop_of(np.exp, [np.dtype("f8")]) == "npc_numpy_loop_exp_dd"
    assert loop_of(np.absolute, [np.dtype("c16")]) == "npc_numpy_loop_absolute_Dd"
    assert loop_of(np.exp, [np.dtype("i8")]) is None
    assert loop_of(np.exp, [np.dtype(">f8")]) is None
    assert loop_of(np.bitwise_and, [np.dtype("f8")] * 2) is None

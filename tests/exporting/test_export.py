"""`export`: a saved program gives what the function gives, and says what is wrong."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.tensor_core.loop_ir.causes import raised_at
from npcompile.tensor_core.loop_ir.ops import Place
from tests.exporting.functions import CASES, Case, fails, move_centres, random, same

FACTOR, WEIGHTS, AT = 3.0, np.array([1.0, 2.0, 4.0]), np.int64(1)
IDS = [case.function.__name__ for case in CASES]
X = np.arange(1.0, 6.0)


@pytest.mark.parametrize("case", CASES, ids=IDS)
@pytest.mark.parametrize("is_loaded", [False, True])
def test_result_and_arguments_are_the_functions(case: Case, is_loaded: bool, tmp_path: Path) -> None:
    exported = npc.export(case.function, *case.arguments())
    assert exported.is_exact
    if is_loaded:
        exported.save(tmp_path / "f.npc")
        exported = npc.load_exported(tmp_path / "f.npc")
    for arguments in (case.arguments, case.others):
        ours, theirs = arguments(), arguments()
        assert same(exported(*ours), case.function(*theirs))
        assert same(ours, theirs)


def test_loaded_is_what_was_saved(tmp_path: Path) -> None:
    exported = npc.export(move_centres, *CASES[2].arguments(), dynamic=False)
    exported.save(tmp_path / "f.npc")
    loaded = npc.load_exported(tmp_path / "f.npc")
    assert loaded.as_text() == exported.as_text()
    assert (loaded.parameters, loaded.causes, str(loaded)) == (exported.parameters, exported.causes, str(exported))
    assert [p.is_written for p in loaded.parameters] == [False, True, True]
    assert loaded.doc == move_centres.__doc__


def test_pickled_and_copied() -> None:
    exported = npc.export(move_centres, *CASES[2].arguments())
    exported(*CASES[2].others())
    for made in (pickle.loads(pickle.dumps(exported)), copy.deepcopy(exported)):
        assert made.as_text() == exported.as_text()
        assert same(made(*CASES[2].others()), exported(*CASES[2].others()))


def test_many_threads_call_one() -> None:
    exported = npc.export(CASES[1].function, *CASES[1].arguments())
    wanted = CASES[1].function(*CASES[1].others())
    with ThreadPoolExecutor(4) as pool:
        assert all(same(found, wanted) for found in pool.map(lambda _: exported(*CASES[1].others()), range(40)))


WITHOUT_FRONT_END = """
import sys, types
package = types.ModuleType("npcompile")
package.__path__ = [sys.argv[1]]
sys.modules["npcompile"] = package
sys.modules["npcompile.tracer"] = None
import numpy as np
from npcompile.backends import own
from npcompile.exported import load_exported
own.register()
print(load_exported(sys.argv[2])(np.arange(4.0), 2))
"""


def test_runs_without_a_front_end(tmp_path: Path) -> None:
    def f(x: np.ndarray, k: int) -> np.ndarray:
        return x * k

    npc.export(f, np.ones(2), 1).save(tmp_path / "f.npc")
    package = Path(__file__).resolve().parents[2] / "npcompile"
    command = [sys.executable, "-c", WITHOUT_FRONT_END, str(package), str(tmp_path / "f.npc")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(np.arange(4.0) * 2)


def test_what_is_outside_stays_as_it_was(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def f(x: np.ndarray) -> np.ndarray:
        return x * FACTOR + WEIGHTS[AT]

    exported = npc.export(f, X)
    monkeypatch.setattr(sys.modules[__name__], "FACTOR", 5.0)
    monkeypatch.setattr(sys.modules[__name__], "WEIGHTS", np.zeros(3))
    exported.save(tmp_path / "f.npc")
    assert same(exported(X), X * 3.0 + 2.0)
    assert same(npc.load_exported(tmp_path / "f.npc")(X), X * 3.0 + 2.0)


def test_keywords_defaults_and_compiled_functions() -> None:
    @npc.compile
    def f(x: np.ndarray, scale: float = 2.0) -> np.ndarray:
        return x * scale

    exported = npc.export(f, X)
    assert same(exported(scale=3.0, x=X), X * 3.0)
    for args, kwargs, said in (
        ((X,), {}, "lacks 'scale'"),
        ((X, 1.0, 2), {}, "takes 2 arguments"),
        ((X, 1.0), {"x": X}, "'x' was given twice"),
        ((X,), {"y": 1.0}, "'y' is none of its arguments"),
    ):
        with pytest.raises(TypeError, match=said):
            exported(*args, **kwargs)


def writes(x: np.ndarray, n: int, out: np.ndarray) -> None:
    for i in range(x.size):
        out[i] = x[i] * n


READ_ONLY = np.zeros(5)
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ((X.astype("f4"), 2, X.copy()), TypeError, "'x' is an array of float32 with 1 axis, where an array of float64"),
        ((X.reshape(1, 5), 2, X.copy()), TypeError, "'x' is an array of float64 with 2 axes"),
        ((X.tolist(), 2, X.copy()), TypeError, "'x' is a list"),
        ((X, 2.0, X.copy()), TypeError, "'n' is a Python float, where a Python int"),
        ((X, 1 << 70, X.copy()), TypeError, "'n' is a int"),
        ((X, np.int64(2), X.copy()), TypeError, "'n' is a NumPy int64"),
        ((np.arange(10.0)[::2], 2, X.copy()), ValueError, "'x' is not in C order"),
        ((X, 2, READ_ONLY), ValueError, "'out' is written to, and the array is read-only"),
        ((X, 2, X), ValueError, "'out' is written to, and shares memory with 'x'"),
    ],
)
def test_other_arguments(arguments: tuple[Any, ...], error: type[Exception], said: str) -> None:
    exported, before = npc.export(writes, X, 2, np.zeros(5)), X.copy()
    with pytest.raises(error, match=said):
        exported(*arguments)
    assert same(X, before)


def test_fixed_sizes() -> None:
    exported = npc.export(lambda x: x * 2.0, X, dynamic=False)
    assert same(exported(X), X * 2.0)
    with pytest.raises(ValueError, match=r"'x' has the shape \(4,\); it was exported with dynamic=False for \(5,\)"):
        exported(X[:4])


def test_strided_arrays_where_the_example_is() -> None:
    x = np.arange(10.0)
    exported = npc.export(writes, x[::2], 2, np.zeros(5))
    for given in (x[::2], x[::-2], x[:5]):
        ours, theirs = np.zeros(5), np.zeros(5)
        exported(given, 3, ours)
        writes(given, 3, theirs)
        assert same(ours, theirs)


@pytest.mark.parametrize(
    ("i", "a", "error"),
    [
        (-9, 1.0, KeyError),
        (-8, 1.0, AssertionError),
        (9, 1.0, IndexError),
        (1, -1.0, ValueError),
        (0, 1.0, ZeroDivisionError),
        (1, 0.0, ZeroDivisionError),
    ],
)
def test_errors_are_pythons(i: int, a: float, error: type[Exception]) -> None:
    exported, x = npc.export(fails, X, 1, 1.0), X.copy()
    assert same(exported(x, 2, 4.0), fails(X.copy(), 2, 4.0))
    x = X.copy()
    with pytest.raises(error) as ours:
        exported(x, i, a)
    with pytest.raises(error) as theirs:
        fails(X.copy(), i, a)
    assert same(x, X)  # what was written is put back
    if error in (KeyError, AssertionError):
        assert ours.value.args == theirs.value.args or "minus" in str(theirs.value)


@pytest.mark.parametrize(
    ("i", "a", "said"),
    [
        (-1, 1.0, "a divisor is zero or negative"),
        (1, np.inf, "an argument of sqrt is infinite"),
        (1, np.nan, "an argument of sqrt"),
    ],
)
def test_what_needs_python(i: int, a: float, said: str) -> None:
    line = fails.__code__.co_firstlineno + 5
    with pytest.raises(npc.ExportError, match=rf"fails: {said}.*functions\.py:{line}\)"):
        npc.export(fails, X, 1, 1.0)(X.copy(), i, a)


def test_long_integers() -> None:
    with pytest.raises(npc.ExportError, match="out of the range"):
        npc.export(lambda n: n * n, 3)(1 << 40)


def quotient(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return x / y


@pytest.mark.parametrize(("up", "down"), [(1.0, 0.0), (0.0, 0.0), (1e300, 1e-300), (1e-300, 1e300)])
def test_floating_point_errors(up: float, down: float) -> None:
    exported = npc.export(quotient, X, X)
    x, y = np.array([1.0, up]), np.array([2.0, down])
    for how in ("ignore", "warn", "raise"):
        with np.errstate(all=how):
            assert happened(exported, x, y) == happened(quotient, x, y)


def happened(f: Callable[..., Any], *args: Any) -> tuple[Any, ...]:
    """The result or the error, and the first words of warnings."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        try:
            result = repr(f(*args))
        except FloatingPointError as error:
            result = str(error).partition(" in ")[0]
    return result, [(each.category, str(each.message).partition(" in ")[0]) for each in found]


def test_powers_have_other_last_bits() -> None:
    exported = npc.export(lambda x: x**2.5, X)
    assert not exported.is_exact
    assert exported(X) == pytest.approx(X**2.5)


@pytest.mark.parametrize("f", [lambda x: x.sum(axis=0) + 1.0, lambda x: x.mean(axis=1)])
def test_sums_have_numpys_bits(f: Callable[..., Any]) -> None:
    exported, x = npc.export(f, np.ones((2, 3))), random(0, 40, 50)
    assert exported.is_exact
    assert same(exported(x), f(x))


@pytest.mark.parametrize("f", [lambda x: x.T @ x, lambda x: x @ x[0]])
def test_products_are_routines(f: Callable[..., Any]) -> None:
    """They have a form of their own in the text."""
    exported, x = npc.export(f, np.ones((2, 3))), random(0, 40, 50)
    np.testing.assert_allclose(exported(x), f(x), rtol=1e-14)


@pytest.mark.parametrize(
    ("f", "said"),
    [
        (lambda x: np.sort(x) * 2.0, "sort of elements"),
        (lambda x: x[x > 0], "as many results as data decides"),
        (lambda *x: x[0], "parameters after a star"),
    ],
)
def test_what_has_no_program(f: Callable[..., Any], said: str) -> None:
    with pytest.raises(npc.ExportError, match=rf"<lambda> cannot be exported: .*{said}.*test_export\.py:\d+\)"):
        npc.export(f, X)


@pytest.mark.parametrize(("f", "args"), [(len, ()), (quotient, (X,)), (quotient, (X, [1.0])), (quotient, (X, X * 1j))])
def test_examples_that_are_none(f: Callable[..., Any], args: tuple[Any, ...]) -> None:
    with pytest.raises((TypeError, npc.ExportError)):
        npc.export(f, *args)


def test_damaged_files(tmp_path: Path) -> None:
    path = tmp_path / "f.npc"
    text = npc.export(quotient, X, X).as_text()
    first, _, program = text.partition("\n")
    other = json.dumps({**json.loads(first), "format": 99})
    for damaged, said in (
        ("", "is not an exported program"),
        ("{}\n" + program, "is not an exported program"),
        (f"{other}\n{program}", "has the format 99"),
        (text[:-30], "was changed or cut off"),
        (text.replace("divide(", "multiply("), "was changed or cut off"),
    ):
        path.write_text(damaged)
        with pytest.raises(npc.ExportError, match=said):
            npc.load_exported(path)
    with pytest.raises(FileNotFoundError):
        npc.load_exported(tmp_path / "none.npc")


def test_programs_that_break_a_rule(tmp_path: Path) -> None:
    """Whoever writes such a file can sign it, too."""
    from npcompile.exported import Exported

    exported = npc.export(quotient, X, X)
    broken = exported.program.replace("frame_state(0, 0, [], {})", "", 1)
    made = Exported(exported.name, "", exported.parameters, broken, exported.causes)
    made.save(tmp_path / "f.npc")
    with pytest.raises(npc.ExportError, match="the program is damaged"):
        npc.load_exported(tmp_path / "f.npc")


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("raise ValueError('no')", ("ValueError", "no")),
        ("raise IndexError", ("IndexError", "")),
        ("raise TypeError()", ("TypeError", "")),
        ("assert x", ("AssertionError", "")),
        ("raise NoExceptionOfPythons('no')", ("", "an exception is raised")),
        ("raise ValueError(", ("", "an exception is raised")),
        ("raise ValueError(f'{x}')", ("", "an exception is raised")),
    ],
)
def test_what_a_line_raises(line: str, found: tuple[str, str], tmp_path: Path) -> None:
    path = tmp_path / "raising.py"
    path.write_text(line + "\n")
    assert raised_at(Place(str(path), 1)) == found


def caught(x: np.ndarray, i: int) -> float:
    try:
        return float(x[i])
    except IndexError:
        return -1.0


def calls_caught(x: np.ndarray, i: int) -> float:
    try:
        return inner(x, i) + 1.0
    except IndexError:
        return -1.0


def inner(x: np.ndarray, i: int) -> float:
    return float(x[i])


@pytest.mark.parametrize("f", [caught, calls_caught])
def test_what_the_function_handles_itself_is_no_error_of_its(f: Callable[..., Any]) -> None:
    exported = npc.export(f, X, 1)
    assert same(exported(X, 2), f(X, 2))
    with pytest.raises(npc.ExportError, match="an index is out of bounds, which a handler may take"):
        exported(X, 9)
    with pytest.raises(IndexError):
        npc.export(inner, X, 1)(X, 9)


@pytest.mark.parametrize("f", [lambda x, n: x[0] // n, lambda x, n: x[0] % n, lambda x, n: x[0] / n])
def test_numpys_integers_divided_by_zero_are_no_error(f: Callable[..., Any]) -> None:
    x = np.array([7, 8])
    exported = npc.export(f, x, np.int64(2))
    assert same(exported(x, np.int64(3)), f(x, np.int64(3)))
    with np.errstate(all="ignore"), pytest.raises(npc.ExportError, match="zero or negative"):
        exported(x, np.int64(0))


def test_counts_of_shifts_are_no_indices() -> None:
    exported = npc.export(lambda k, n: k << n, 3, 2)
    assert exported(3, 4) == 48
    with pytest.raises(npc.ExportError):
        exported(3, -1)

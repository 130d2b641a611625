"""What the Python code of SciPy and the standard library asks of its own functions and dicts, answered while capturing."""

import math
import sys
import types

import numpy as np
import scipy.spatial.distance as distance
from scipy._lib._array_api import array_namespace, xp_result_type

import npcompile as npc
from npcompile.compiler import compiled_function
from tests.tracer.harness import check


@check(graphs=1, breaks=0)
def test_function_that_remembers(x):
    """is_numpy is under functools.lru_cache."""
    xp = array_namespace(x)
    return xp.sum(x).astype(xp_result_type(x, force_floating=True, xp=xp))


def test_key_that_appears_in_the_dict_of_a_module():
    def looked_up(x):
        return x + 1 if distance.sys_modules().get("npcompile_test_module") is None else x - 1

    def sys_modules():
        return sys.modules

    distance.sys_modules = types.FunctionType(sys_modules.__code__, {"sys": sys, "__name__": "scipy.spatial.distance"})
    compiled = npc.compile(looked_up, backend="eager")
    x = np.arange(3.0)
    try:
        np.testing.assert_array_equal(compiled(x), x + 1)
        sys.modules["npcompile_test_module"] = types.ModuleType("npcompile_test_module")
        np.testing.assert_array_equal(compiled(x), x - 1)
    finally:
        sys.modules.pop("npcompile_test_module", None)
        del distance.sys_modules
    assert not compiled_function(compiled).breaks


@check(3, graphs=1, breaks=0)
def test_what_math_asks_of_sizes_and_numbers(n, x):
    return x + (1 if math.isnan(n) else 2) + (3 if math.isfinite(x.shape[0] * 2.5) else 4)


@check(0.5, graphs=1, breaks=0, rounds=1)
def test_what_math_asks_of_a_number(v, x):
    return x * v if math.isfinite(v) and not math.isinf(v) else x


@check(graphs=1, breaks=0)
def test_any_and_all_of_array_data(x, y):
    return any([np.isnan(x).any(), (y > 1).any()]), all([x.min() > 0, y.max() > 1]), any((False, x[0, 0] > 1)), all([x.min()])


@check(graphs=1, breaks=0)
def test_an_arm_that_only_raises(x):
    """The program is one graph: it asks at its end."""

    def root(v):
        if np.any(v < 0):
            message = "negative"
            raise ValueError(message)
        return np.sqrt(v)

    return root(x) + root(x + 1)


@check(lambda round: np.full(3, -1.0) if round else np.ones(3))
def test_an_arm_that_raises_at_last(x):
    y = x + 1
    if np.any(x < 0):
        raise ValueError("negative")
    return y * 2


@check(lambda round: np.zeros(3), lambda round: np.full(3, -1.0) if round else np.ones(3))
def test_nothing_is_written_before_an_arm_that_raises(out, x):
    out += 1
    if np.any(x < 0):
        out += 10
        raise ValueError("negative")
    out += x


@check(graphs=1, breaks=0)
def test_modes_of_copying(x):
    return (
        np.array(x, copy=np._CopyMode.IF_NEEDED),
        np.array(x, copy=np._CopyMode.ALWAYS),
        np.array(x, dtype=np.float32, copy=np._CopyMode.IF_NEEDED),
        np.iterable(x),
        np.iterable(3.0),
    )


@check(lambda round: (0, 1, -1)[round], lambda round: np.arange(12.0).reshape(3, 4), graphs=3, breaks=0, rounds=3)
def test_an_axis_that_changes(axis, x):
    """A few programs are made for one value each of an integer that has to be known."""
    return np.cumsum(x, axis=axis).max(axis=axis)


@check(lambda round: 3 + round, graphs=2, breaks=0, rounds=4)
def test_a_number_of_iterations_that_changes(n, x):
    """The second other one makes the loop a loop."""
    for k in range(n):
        x = np.rot90(x, 2) * 2 + k  # no native loop has rot90
    return x


@check(graphs=1, breaks=0)
def test_types_joined_by_or(x):
    return (x + 1, isinstance(x, np.ndarray | None), isinstance(None, np.ndarray | None), isinstance(3, np.ndarray | float))


@check(lambda round: (0, -1, 1)[round], lambda round: np.ones((2 + round, 3)), breaks=0, rounds=2)
def test_masks_of_sizes_and_axes(axis, x):
    """As scipy.stats computes the shapes that samples broadcast to."""
    axes = np.atleast_1d(axis)
    axes[axes < 0] = x.ndim + axes[axes < 0]
    shapes = np.delete(np.array([x.shape, x.shape]), np.unique(axes), axis=1)
    largest = np.max(shapes, axis=0)
    if np.any(~((shapes == 1) | (shapes == largest))):
        raise ValueError("do not broadcast")
    return x.sum(axis=tuple(axes)), np.broadcast_to(x[0, 0], tuple(largest))


@check(lambda round: 0.3 + round / 10, breaks=0)
def test_an_integer_made_of_a_float(share, x):
    cut = int(share * x.shape[0])
    return x[cut:], int(-2.5 * share)


@check(breaks=0)
def test_attributes_that_are_missing(x):
    def kind(v):
        try:
            return v.dtype
        except AttributeError as error:
            return str(error)

    return kind(x), kind(3), kind([x]), kind("a"), kind(x.shape[0] * 2), kind(x.shape[0] / 2), kind({}), kind(None)


@check(1, lambda round: np.ones((2 + round, 3)), breaks=0, rounds=2)
def test_an_item_of_sizes(axis, x):
    """np.insert asks its index for its item."""
    return np.insert(np.array(x.shape), np.atleast_1d(axis) - 1, 7), np.array([x.shape[0]]).item() * x


class Counted:
    """Answers NumPy's functions itself, and has what they would ask for else."""

    def __array_function__(self, function, types, args, kwargs):
        return f"{function.__name__} of {len(args)}"

    def sum(self, **keywords):
        return 5

    def __array__(self, dtype=None, copy=None):
        return np.ones(3)


@check(Counted())
def test_classes_that_answer_numpys_functions(counted, x):
    made = Counted()
    return np.sum(counted), np.sum(made), np.column_stack([made, x]), np.ndim(counted), np.sum(x)


@check()
def test_arrays_to_stack_are_in_a_sequence(x):
    found = []
    for stack in (np.stack, np.hstack, np.vstack, np.dstack, np.column_stack):
        for arrays in ((x + k for k in range(2)), map(np.sin, [x, x]), {1: x, 2: x}.values(), [x, x]):
            try:
                found.append(stack(arrays))
            except TypeError as error:
                found.append(str(error))
    return found


@check()
def test_arrays_joined_by_indexing(x, y):
    v = x[0]
    rows = np.r_[x, y], np.r_["1", x, y], np.r_[x, y], np.r_[v, 0, 1:4], np.r_["0,2", v, v], np.r_[x[None], y[None]]
    return rows, np.c_[x, y], np.c_[v, v, 0:3], np.c_[x[None], y[None]], np.r_["r", v, v], np.c_[x[:, 0], y]


@check(np.array([1, 3, 0, 1]))
def test_axes_of_different_elements(x):
    found = []
    for axis in (None, 0, -1, 0.0, 1, -2, (0,)):
        try:
            found.append(np.unique(x, axis=axis))
        except (TypeError, ValueError) as error:
            found.append(str(error))
    return found

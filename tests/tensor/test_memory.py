"""What a Tensor says of its memory, and changes of its outside, as ndarray does."""

from __future__ import annotations

import ctypes
import io
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from npcompile.tensor_core.tensor import Tensor, from_numpy, tensor


def made() -> tuple[Tensor, np.ndarray]:
    a = np.arange(6.0)
    return tensor(a), a


def test_ndarray_has_nothing_that_tensors_lack() -> None:
    lacking = {n for n in dir(np.ndarray) if not n.startswith("_") and not hasattr(Tensor, n)}
    assert not lacking


def test_base_is_the_tensor_whose_memory_it_is() -> None:
    x, _ = made()
    y = x.reshape(2, 3)
    assert x.base is None and y.base is x and y[1:].T.base is x and (x + 1).base is None
    assert np.broadcast_to(x, (2, 6)).base is x and x.real.base is not x.copy()
    assert from_numpy(np.frombuffer(b"abcd", np.uint8)).base == b"abcd"


def test_flat() -> None:
    x, a = made()
    t, b = x.reshape(2, 3).T, a.reshape(2, 3).T
    assert [float(v) for v in t.flat] == list(b.flat) and t.flat[3] == b.flat[3] and len(t.flat) == 6
    assert t.flat[[1, 2]].tolist() == b.flat[[1, 2]].tolist() and (t.flat > 2).tolist() == (b.flat > 2).tolist()
    assert np.asarray(t.flat).tolist() == t.flat.copy().tolist() == b.flatten().tolist() and t.flat.base is t
    t.flat[1:3] = tensor([8.0, 9.0])
    b.flat[1:3] = [8.0, 9.0]
    assert x.tolist() == a.tolist()
    t.flat = 5
    assert x.tolist() == [5.0] * 6
    iterator = t.flat
    next(iterator)
    assert (iterator.index, iterator.coords) == (1, (0, 1))


def test_what_requires_grad_gives_out_nothing_that_loses_it() -> None:
    x = tensor([1.0, 2.0], requires_grad=True)
    assert x.data.readonly and x.ctypes.data == x.detach().ctypes.data and hasattr(x, "flat")
    for use in (lambda: x.flat[0], lambda: next(x.flat), lambda: x.flat.copy(), lambda: x.tofile("x"), lambda: x.getfield("f8")):
        with pytest.raises(RuntimeError, match="detach"):
            use()


def test_writes_beside_the_tape_are_seen_by_it() -> None:
    for write in (lambda x: x.flat.__setitem__(0, 7.0), lambda x: x.setfield(7.0, np.float64), lambda x: x.byteswap(True)):
        w, x = tensor([2.0, 3.0], requires_grad=True), tensor([1.0, 2.0])
        y = w * x
        write(x)
        with pytest.raises(RuntimeError, match="changed in place"):
            y.sum().backward()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(("name", "value"), [("shape", (3, 2)), ("dtype", np.int64), ("strides", (0,))])
def test_set_attributes(name: str, value: Any) -> None:
    a = np.arange(6.0)
    x, seen = from_numpy(a), a.view()
    view = x[:1]
    setattr(x, name, value)
    setattr(seen, name, value)
    np.testing.assert_array_equal(x, seen)
    assert (x.shape, x.strides, x.dtype) == (seen.shape, seen.strides, seen.dtype) and a.shape == (6,)
    x[...] = 0
    assert not view.numpy().any() and not a[0]
    with pytest.raises(RuntimeError, match="requires grad"):
        setattr(tensor([1.0, 2.0], requires_grad=True), name, value)


def test_flags() -> None:
    x, _ = made()
    y = x[1:]
    y.setflags(write=False)
    assert not y.flags.writeable and x.flags.writeable
    with pytest.raises(ValueError):
        y[0] = 1
    with pytest.raises(ValueError):
        y += tensor(np.ones(5), requires_grad=True)
    y.setflags(write=True)
    y[0] = 5
    assert x[1] == 5


def test_resize() -> None:
    x, a = made()
    x.resize(2, 4, refcheck=False)
    a.resize(2, 4, refcheck=False)
    assert x.tolist() == a.tolist()
    kept = x[0]
    with pytest.raises(ValueError):
        x.resize(1)
    assert kept.tolist() == a[0].tolist()
    with pytest.raises(ValueError, match="graph"):
        tensor([1.0], requires_grad=True).resize(3)


def test_bytes_and_files(tmp_path: Path) -> None:
    x, a = made()
    assert bytes(x.data) == bytes(a.data) == x.tobytes() and x.ctypes.data_as(ctypes.POINTER(ctypes.c_double))[2] == 2.0
    assert x.byteswap().tolist() == a.byteswap().tolist() and x.getfield(np.int32, 4).tolist() == a.getfield(np.int32, 4).tolist()
    path = tmp_path / "numbers"
    x.tofile(path)
    assert np.fromfile(path).tolist() == a.tolist()
    np.save(file := io.BytesIO(), x)
    file.seek(0)
    assert np.load(file).tolist() == a.tolist()
    x.dump(path)
    assert np.load(path, allow_pickle=True).tolist() == a.tolist()
    with pytest.raises(ValueError):
        del x[0]


def test_array_interface() -> None:
    x, _ = made()
    told = x.__array_interface__
    assert told["typestr"] == "<f8" and told["data"][0] == x.numpy().ctypes.data and np.asarray(x).base is not None
    assert np.shares_memory(np.asarray(x), x.numpy())
    with pytest.raises(RuntimeError, match="detach"):
        tensor([1.0], requires_grad=True).__array_interface__
    half = tensor(np.ones(2, ml_dtypes.bfloat16))
    assert not hasattr(half, "__array_interface__") and not hasattr(half, "__array_struct__")
    assert np.asarray(half).dtype == ml_dtypes.bfloat16
    assert np.asarray(tensor([1.0]).detach()[:0]).shape == (0,) and sys.getsizeof(tensor(np.ones(100))) > 800


def test_subclasses_run_as_numpy() -> None:
    class Tagged(np.ndarray):
        pass

    x, a = made()
    tagged = a.view(Tagged)
    for result in (x + tagged, tagged + x, np.add(x, tagged), np.concatenate([x, tagged]), np.add(x, 1, out=a.view(Tagged))):
        assert type(result) is Tagged or (type(result) is Tensor and result.shape == (12,))
    with pytest.raises(RuntimeError, match="subclass"):
        np.add(x.requires_grad_(), tagged)


def test_objects_beside_tensors() -> None:
    from decimal import Decimal

    x = tensor([1, 2])
    result = x * Decimal("0.5")
    assert result.dtype == object and result.tolist() == [Decimal("0.5"), Decimal("1.0")]
    assert (Decimal("0.5") * x).tolist() == result.tolist()


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")  # of np.matrix
def test_subclasses_with_operators_of_their_own_are_asked_first() -> None:
    class Mine(np.ndarray):
        def __radd__(self, other: Any) -> str:
            return "mine"

        def __gt__(self, other: Any) -> str:
            return "greater"

    x, a = made()
    mine, matrix = a.view(Mine), np.matrix([[1.0, 2.0], [3.0, 4.0]])
    square = tensor(np.eye(2) * 2)
    assert x + mine == "mine" and (x < mine) == "greater" and type(x - mine) is Mine
    assert (square * matrix).tolist() == [[2.0, 4.0], [6.0, 8.0]] and type(square + matrix) is np.matrix

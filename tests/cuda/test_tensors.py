"""Eager Tensors on the stand-in for a device: some of the tests of Tensors, with kernels in Triton's interpreter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends import device_arrays as arrays
from npcompile.backends.cuda import backend as cuda_backend
from npcompile.backends.cuda.runtime import device as cuda_device
from npcompile.tensor_core.tensors import on_device
from npcompile.tensor_core.tensors.devices import CURRENT, KINDS
from npcompile.tensors import Tensor, no_grad, tensor
from tests.cuda.interpreted import KIND, DeviceArray, InterpretedDevice
from tests.tensor import test_random_programs, test_views
from tests.tensor.checks import check_gradient, same
from tests.tensor.test_on_device import DEVICES, lenient  # noqa: F401  (a fixture)
from tests.tensor.test_operations import COMPOSED, ELEMENTWISE, INDEXED, LAYOUTS, SHAPES, SQUARE, WIDE

DEVICE = InterpretedDevice()
OPENED: list[Any] = []  # what was compiled is kept from test to test


@pytest.fixture(autouse=True)
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """New Tensors are made on it."""
    for module in (cuda_device, cuda_backend):
        for name in ("current_device", "numbered_device", "named_device"):
            monkeypatch.setattr(module, name, lambda *_: DEVICE, raising=False)
    monkeypatch.setitem(arrays.ARRAY_KINDS, DeviceArray, KIND)
    if OPENED:
        KINDS[DeviceArray] = OPENED[0]
    token = CURRENT.set("cuda")
    yield DEVICE
    CURRENT.reset(token)
    OPENED[:] = [KINDS.pop(DeviceArray)] if DeviceArray in KINDS else []


globals().update(DEVICES)

# Those that meet arrays of the host are told apart by their error.
CASES = [pytest.param(f, LAYOUTS[layout], id=f"{name}-{layout}") for table, layouts in (
    (ELEMENTWISE, ("contiguous", "reversed", "zero_dimensions")), (SHAPES, ("transposed", "empty"))
) for layout in layouts for name, f in table.items() if name not in ("nonzero",)]  # fmt: skip
CASES += [pytest.param(f, WIDE, id=name) for name, f in INDEXED.items()]
CASES += [pytest.param(f, SQUARE, id=name) for name, f in COMPOSED.items()]


def is_mixed(function: Callable[[Any], Any], x: np.ndarray) -> bool:
    try:
        function(tensor(x))
    except RuntimeError as error:
        assert "move them to one device" in str(error)
        return True
    return False


@pytest.mark.parametrize(("function", "x"), CASES)
def test_values(function: Callable[[Any], Any], x: np.ndarray) -> None:
    if not is_mixed(function, x):
        expected = function(x.copy(order="K"))
        same(function(tensor(x)), expected)
        leaf = tensor(x, requires_grad=True)
        with no_grad():
            same(function(leaf), expected)


GRADIENTS = "x + 1|2 / x|x ** 3|where|clip|sin|tanh|concatenate|sum|mean|std|max|cumsum|T|slice|array|take|einsum|softmax|tril"


@pytest.mark.parametrize("name", GRADIENTS.split("|"))
def test_gradients(name: str) -> None:
    function: Callable[[Any], Any] = (ELEMENTWISE | SHAPES | INDEXED)[name]
    if not is_mixed(function, WIDE):
        check_gradient(function, WIDE)


@pytest.mark.parametrize("view", ["slice", "T", "reshape F", "row"])
@pytest.mark.parametrize("write", ["fill", "iadd", "square itself", "shifted itself", "element"])
@pytest.mark.usefixtures("lenient")
def test_writes_to_views(view: str, write: str) -> None:
    test_views.test_writes_to_views_are_seen_and_have_gradients(test_views.VIEWED[view], test_views.WRITES[write])


@pytest.mark.parametrize("seed", range(6))
def test_random_programs_on_the_device(seed: int) -> None:
    test_random_programs.test_random_programs(seed)


def test_one_program_serves_all_sizes(device: InterpretedDevice) -> None:
    for n in (5, 6, 9, 2):
        x = tensor(np.arange(n * 3.0).reshape(n, 3))
        same(np.hypot(x, 2 * x), np.hypot(x.numpy(), 2 * x.numpy()))
    programs = KINDS[DeviceArray].programs  # type: ignore[attr-defined]
    assert len([key for key in programs if key[0] == "hypot"]) == 1


def test_casts_and_repetition_are_part_of_the_program(device: InterpretedDevice) -> None:
    a, b = np.arange(12.0).reshape(3, 4).T, np.arange(3, dtype=np.float32)
    launched = len(KINDS[DeviceArray].calls) if DeviceArray in KINDS else 0  # type: ignore[attr-defined]
    same(np.arctan2(tensor(a), tensor(b)), np.arctan2(a, b))
    assert len(KINDS[DeviceArray].calls) == launched + 1  # type: ignore[attr-defined]
    for ours, theirs in ((tensor(b) * 2.5, b * 2.5), (tensor(b) + tensor(a[:1].T), b + a[:1].T), (2 - tensor(a), 2 - a)):
        same(ours, theirs)
    with pytest.raises(ValueError, match="could not be broadcast"):
        tensor(a) + tensor(np.ones(5))
    with pytest.raises(TypeError, match="ufunc"):
        tensor(a) & tensor(a)


def test_numpys_python_stays_on_the_device(device: InterpretedDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    x = tensor(SQUARE)

    def refuse(*_: Any) -> Any:
        raise AssertionError("a copy on the host")

    with monkeypatch.context() as patch:
        patch.setattr(on_device, "by_numpy", refuse)
        made = [np.cov(x), np.diff(x), np.gradient(x, axis=0)]
    for ours, theirs in zip(made, [np.cov(SQUARE), np.diff(SQUARE), np.gradient(SQUARE, axis=0)]):
        same(ours, theirs)
    for _ in range(2):
        same(np.histogram(x)[0], np.histogram(SQUARE)[0])
    with pytest.raises(ValueError, match=r"same number of|must match exactly"):
        np.cov(x, tensor(np.ones((2, 7))))


def test_large_arrays_of_positions_are_made_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    uploads: list[tuple[int, ...]] = []
    upload = type(DEVICE).upload
    a = np.random.default_rng(2).normal(size=(36, 40))
    x = tensor(a, requires_grad=True)
    monkeypatch.setattr(type(DEVICE), "upload", lambda self, host: (uploads.append(host.shape), upload(self, host))[1])
    made = np.tril(x) + np.sort(x, axis=1)
    made.sum().backward()
    same(made, np.tril(a) + np.sort(a, axis=1))
    same(x.grad, np.tril(np.ones_like(a)) + 1)
    assert all(np.prod(shape) < 100 for shape in uploads)


def test_a_loop_over_places_compiles_once() -> None:
    a = np.arange(1.0, 10.0)
    x = tensor(a, requires_grad=True)
    y = tensor(np.zeros(9))
    before: set[Any] = set()
    for k in range(9):
        y[k] = np.sin(x[k]) * 2
        if k == 2:
            before = set(KINDS[DeviceArray].programs)  # type: ignore[attr-defined]
    assert set(KINDS[DeviceArray].programs) == before  # type: ignore[attr-defined]
    (y * y).sum().backward()
    same(y, np.sin(a) * 2)
    same(x.grad, 8 * np.sin(a) * np.cos(a))
    assert not [key for key in KINDS[DeviceArray].programs if key[0] == "slice_update"]  # type: ignore[attr-defined]


def test_layouts_are_the_programs_or_copied(device: InterpretedDevice) -> None:
    a = np.arange(24.0).reshape(2, 3, 4)
    x = tensor(a)
    for view in (lambda v: v.T, lambda v: v[::-1, :, ::2], lambda v: v[:, 1], lambda v: np.broadcast_to(v[:1], (2, 3, 4))):
        same(np.logaddexp(view(x), view(x)), np.logaddexp(view(a), view(a)))
        same(np.sum(view(x), axis=0), np.sum(view(a), axis=0))


def test_a_training_step() -> None:
    rng = np.random.default_rng(0)
    a, target = rng.normal(size=(6, 3)), rng.normal(size=6)
    x, y, w = tensor(a), tensor(target), tensor(np.zeros(3), requires_grad=True)
    expected = np.zeros(3)
    for _ in range(3):
        w.grad = None
        ((np.tanh(x @ w) - y) ** 2).mean().backward()
        with no_grad():
            w -= 0.1 * w.grad  # type: ignore[operator]
        out = np.tanh(a @ expected)
        expected -= 0.1 * (a.T @ (2 * (out - target) * (1 - out * out))) / 6
    np.testing.assert_allclose(w.detach().numpy(), expected, rtol=1e-12)
    assert type(w._data) is type(w.grad._data) is DeviceArray  # type: ignore[union-attr]


def test_arrays_of_the_device_are_operands() -> None:
    x = tensor([1.0, 2.0], requires_grad=True)
    array = DEVICE.upload(np.array([3.0, 4.0]))
    made = x * array
    array[...] = 0  # what was read is kept for the gradient
    made.sum().backward()
    same(made, np.array([3.0, 8.0]))
    same(x.grad, np.array([3.0, 4.0]))
    shared = npc.asarray(array)
    shared[0] = 7.0
    assert np.asarray(array).tolist() == [7.0, 0.0] and isinstance(tensor(array), Tensor)

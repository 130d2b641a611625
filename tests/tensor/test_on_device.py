"""The tests of Tensors where new ones are made on a device, and what only Tensors of a device have."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import pytest

import npcompile.tensors as npt
from npcompile.tensor_core.tensors import dispatch, on_device
from npcompile.tensor_core.tensors.calls import SURFACE, Call
from npcompile.tensor_core.tensors.devices import CURRENT, KINDS, OPENERS, kind_among
from npcompile.tensors import Tensor, asarray, from_numpy, gradients_of, no_grad, tensor
from tests.tensor import test_autograd, test_operations, test_random_programs, test_views
from tests.tensor.checks import same
from tests.tensor.remote import RemoteArray, RemoteArrays


@pytest.fixture(autouse=True)
def remote(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[None]:
    """New Tensors are on the device "remote"."""
    if request.node.name.endswith("-composed]"):
        pytest.skip("programs are not compiled for this device, and so NumPy's own Python has no gradient")
    kind = RemoteArrays()
    monkeypatch.setitem(OPENERS, "remote", lambda: kind)
    monkeypatch.setitem(KINDS, RemoteArray, kind)
    monkeypatch.setattr(SURFACE, "capture_call", None)  # compiled programs do not run on it
    token = CURRENT.set("remote")
    yield
    CURRENT.reset(token)


@pytest.fixture
def lenient(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Arrays of the host are taken beside those of the device, as the tests of the CPU have them."""
    if "[nonzero-" in request.node.name:
        pytest.skip("NumPy's results are columns of one array, those of a device are arrays of their own")

    def device_among(call: Call, args: tuple, kwargs: dict[str, Any]) -> str | None:
        return None if kind_among(list(on_device.arrays_among((*args, *kwargs.values())))) is None else CURRENT.get()

    monkeypatch.setattr(dispatch, "device_among", device_among)


# Of the CPU: what compiled programs give, ndarrays where only Tensors of the device may be.
LEFT_OUT = """
test_attached_programs test_attached_programs_without_gradients test_gradients_of_attached_programs_do_not_share_memory
test_second_derivatives_of_attached_programs_say_what_to_do test_lost_gradients test_gradients_of_named_inputs
test_backward_takes_the_gradient_of_what_is_no_number test_gradients_have_the_dtype_of_the_tensor test_from_numpy_shares
test_out_and_where test_without_a_gradient_the_error_says_so test_read_only_arrays_stay_read_only
test_recorded_products_are_numpys_to_the_bit test_other_array_types_are_left_alone test_every_step_has_its_view_of_memory
test_array_scalars_have_their_own_operators_and_methods
""".split()


def reused(module: ModuleType) -> dict[str, Any]:
    """A module's tests, for the device."""
    found = {}
    for name, test in vars(module).items():
        if name.startswith("test_") and name not in LEFT_OUT:
            again = FunctionType(test.__code__, test.__globals__, name)
            again.__dict__.update(test.__dict__)
            found[f"{name}_of_{module.__name__.rpartition('_')[2]}"] = pytest.mark.usefixtures("lenient")(again)
    return found


for tests in (test_autograd, test_operations, test_random_programs, test_views):
    globals().update(reused(tests))

A = np.arange(6.0).reshape(2, 3)
HERE = set(globals())


def test_moves() -> None:
    x = tensor(A.T, device="cpu", requires_grad=True)
    place = CURRENT.get()
    y = x.to(place)
    assert y.device == place and y.to(place) is y and y.cpu().device == "cpu" and x.cpu() is x
    same(y, A.T)
    z = np.sin(y) * 2
    assert z.device == place
    z.cpu().sum().backward()
    assert x.grad is not None and x.grad.device == "cpu"
    np.testing.assert_allclose(x.grad.numpy(), np.cos(A.T) * 2, rtol=1e-14)
    with pytest.raises(ValueError, match="unknown device"):
        x.to("elsewhere")


def test_second_derivatives_through_moves() -> None:
    x = tensor(A, device="cpu", requires_grad=True)
    (first,) = gradients_of([(x.to(CURRENT.get()) ** 3).sum()], [x], create_graph=True)
    assert first is not None and first.device == "cpu"
    (second,) = gradients_of([first.sum()], [x])
    same(second, 6 * A)


def test_arrays_of_two_devices_do_not_meet() -> None:
    x, place = tensor(A), CURRENT.get()
    host = tensor(A, device="cpu")
    for mixed in (
        lambda: x + A,
        lambda: A * x,
        lambda: host - x,
        lambda: np.where(x > 1, x, host),
        lambda: np.concatenate([x, A]),
        lambda: x.__setitem__(0, A[0]),
        lambda: host.__setitem__(0, x[0]),
        lambda: host[tensor([0, 1])],
        lambda: tensor(0.0, device="cpu").__setitem__(..., x[0, 0]),
        lambda: np.add(x, 1, out=host),
        lambda: np.add(host, 1, out=x),
        lambda: tensor(0.0, device="cpu").__iadd__(x[0, 0]),
    ):
        with pytest.raises(RuntimeError, match=rf"'{place}'.*\.to\('{place}'\)"):
            mixed()
    with pytest.raises(RuntimeError, match=rf"'cpu'.*\.to\('{place}'\)"):
        (tensor(A, requires_grad=True) * 2).backward(A)


def test_numbers_of_the_host_meet_arrays_of_a_device() -> None:
    x = tensor(A, requires_grad=True)
    scale = tensor(2.0, device="cpu", requires_grad=True)
    made = x * scale + np.float64(1) - np.array(3.0) + [4.0, 8.0, 12.0] * tensor(np.ones(3))
    same(made, A * 2 - 2 + np.array([4.0, 8.0, 12.0]))
    made.sum().backward()
    same(x.grad, np.full((2, 3), 2.0))
    same(scale.grad, A.sum())
    assert (x.grad.device, scale.grad.device) == (x.device, "cpu")
    same(np.add(2.0, x.detach()), A + 2)


def test_subscripts_of_the_host() -> None:
    x = tensor(A)
    for key in (np.array([1, 0]), A > 2, tensor([1, 0], device="cpu"), tensor([1, 0]), (tensor([0, 1]), np.array([2, 1])), x > 2):
        plain = key
        if isinstance(key, tuple):
            plain = tuple(k.numpy() if isinstance(k, Tensor) else k for k in key)
        elif isinstance(key, Tensor):
            plain = key.numpy()
        same(x[key], A[plain])
        changed, expected = tensor(A), A.copy()
        changed[key] = 7.0
        expected[plain] = 7.0
        same(changed, expected)
    same(x[tensor(1)], A[1])
    with pytest.raises(IndexError, match="index 9 is out of bounds for axis 0 with size 2"):
        x[tensor([0, 9])]


def test_host_views_of_a_device_are_copies() -> None:
    x = tensor(A)
    for made in (x.numpy(), np.asarray(x), np.array(x), x.cpu().numpy()):
        assert type(made) is np.ndarray
        made[0, 0] = 9
        np.testing.assert_array_equal(x.tolist(), A.tolist())
    assert (x[0, 1].item(), float(x[0, 1]), x.item(1), 5 in x, 7 in x) == (1.0, 1.0, 1.0, True, False)
    with pytest.raises(RuntimeError, match="detach"):
        tensor(1.0, requires_grad=True).numpy()
    with pytest.raises(ValueError, match="copy=False"):
        np.asarray(x, copy=False)


def test_text() -> None:
    place = CURRENT.get()
    assert repr(tensor([1.0, 2.0])) == f"Tensor([1., 2.], device={place})"
    assert repr(tensor([1.0], requires_grad=True)) == f"Tensor([1.], requires_grad=True, device={place})"
    assert f"{tensor(2.5):.2f}" == "2.50"


def test_copies_and_pickles() -> None:
    x = tensor(A.T, requires_grad=True)
    (x * x).sum().backward()
    deep = copy.deepcopy({"w": x, "same": x})
    assert deep["w"] is deep["same"] and deep["w"].device == x.device
    same(deep["w"], A.T)
    same(deep["w"].grad, 2 * A.T)
    assert copy.copy(x)._data is x._data and x.clone().device == x.device
    made = pickle.loads(pickle.dumps(x))
    assert made.device == x.device and made.requires_grad
    same(made, A.T)


CREATED = {
    "zeros": lambda m: m.zeros((2, 3)),
    "zeros F": lambda m: m.zeros((2, 3), order="F"),
    "ones": lambda m: m.ones(4, np.float32),
    "full": lambda m: m.full((2,), 7),
    "arange": lambda m: m.arange(0, 1, 0.25),
    "linspace": lambda m: m.linspace(0, 1, 5),
    "eye": lambda m: m.eye(3, k=1),
    "zeros_like": lambda m: m.zeros_like(m.ones((2, 2)).T),
    "ones_like": lambda m: m.ones_like(m.zeros(3, np.int16), dtype=np.float32),
    "full_like": lambda m: m.full_like(m.zeros(3), 5),
}


@pytest.mark.parametrize("create", CREATED.values(), ids=CREATED)
def test_creation(create: Any) -> None:
    made = create(npt)
    same(made, create(np))
    assert made.device == CURRENT.get()


def test_where_new_tensors_are() -> None:
    place = CURRENT.get()
    host = npt.zeros(3, device="cpu", requires_grad=True)
    assert host.device == npt.ones_like(host).device == npt.randn_like(host).device == tensor(host).device == "cpu"
    assert asarray(host.detach()).device == from_numpy(A).device == "cpu"
    assert asarray(A).device == tensor([1]).device == tensor(A).device == npt.rand(3).device == Tensor([1.0]).device == place
    token = CURRENT.set("cpu")
    x = tensor(A, device=place)
    assert npt.zeros_like(x).device == tensor(x).device == asarray(x).device == tensor(x, np.float32).device == place
    assert npt.zeros(2).device == "cpu" and tensor([x, x]).device == "cpu"
    CURRENT.reset(token)


def test_random_numbers_are_those_of_the_cpu() -> None:
    np.random.seed(5)
    made = npt.randn(2, 3, requires_grad=True)
    np.random.seed(5)
    same(made, np.random.standard_normal((2, 3)))
    assert made.device == CURRENT.get() and made.requires_grad


def test_writes_are_seen_through_views_and_repeated_elements_are_not_written() -> None:
    x = tensor(A)
    row, turned = x[1], x.T
    row += 10
    turned[0] = [5.0, 6.0]
    same(x, np.array([[5.0, 1.0, 2.0], [6.0, 14.0, 15.0]]))
    x[:, 1:] = x[:, :-1]  # the memory read is that written
    same(x, np.array([[5.0, 5.0, 1.0], [6.0, 6.0, 14.0]]))
    for fixed in (np.broadcast_to(x, (2, 2, 3)), np.broadcast_to(x, (2, 2, 3))[0]):
        assert not fixed.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            fixed[0] = 1.0
    with no_grad():
        np.multiply(x, 2, out=x, where=x > 5)
    same(x, np.array([[5.0, 5.0, 1.0], [12.0, 12.0, 28.0]]))


def test_views_that_steps_cannot_tell_share_memory() -> None:
    x = tensor(np.zeros(4))
    halves = x.view(np.float32)
    pairs = x.view(np.complex128)
    x[1] = 2.0
    same(halves, np.array([0.0, 2.0, 0.0, 0.0]).view(np.float32))
    same(pairs, np.array([0.0, 2.0, 0.0, 0.0]).view(np.complex128))


def test_what_has_no_captured_form_runs_with_numpy() -> None:
    x = tensor([3.0, 1.0, 3.0])
    values, counts = np.unique(x, return_counts=True)
    same(values, np.array([1.0, 3.0]))
    assert values.device == counts.device == x.device and counts.tolist() == [1, 2]
    x.sort()
    same(x, np.array([1.0, 3.0, 3.0]))
    w = tensor([3.0, 1.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="no gradient"):
        np.histogram(w)


DEVICES = {name: value for name, value in globals().items() if name.startswith("test_") and name not in HERE}

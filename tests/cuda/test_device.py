"""The tests of kernels and primitives on a real device, and what only such a device has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npcompile.backends.cuda.runtime.device import CupyDevice, current_device
from tests.backends import NO_DEVICE, gpu

pytestmark = gpu

if not NO_DEVICE:
    from tests.cuda import interpreted, test_kernels, test_primitives, test_random_graphs

    class RecordingDevice(CupyDevice):
        """Keeps what was loaded, as the tests ask."""

        def __init__(self) -> None:
            super().__init__()
            self.requests: list[Any] = []

        def load(self, requests: Any) -> Any:
            self.requests += requests
            return super().load(requests)

    @pytest.fixture(autouse=True)
    def on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(interpreted, "makers", [RecordingDevice])
        # Functions of the device and NumPy's round differently: within 4 units, as the contract has it.
        monkeypatch.setattr(test_primitives, "LEAST_ULP", 4)

    test_op = test_primitives.test_op
    test_casts = test_primitives.test_casts
    test_where = test_primitives.test_where
    test_power_of_signed_integers = test_primitives.test_power_of_signed_integers
    test_reductions = test_kernels.test_reductions
    test_reductions_in_two_stages = test_kernels.test_reductions_in_two_stages
    test_softmax_is_one_kernel = test_kernels.test_softmax_is_one_kernel
    test_passes = test_kernels.test_rows_that_do_not_fit_on_the_chip_go_in_passes
    test_layer_norm_is_one_kernel = test_kernels.test_layer_norm_is_one_kernel
    test_sums_in_parts = test_kernels.test_sums_in_parts_are_as_good_as_numpys
    test_sums_of_nothing = test_kernels.test_sums_of_nothing_and_of_negative_zeros
    test_positions_of_extremes = test_kernels.test_positions_of_extremes
    test_scans = test_kernels.test_scans
    test_transposed = test_kernels.test_transposed_operands_in_square_tiles
    test_gathers = test_kernels.test_gathers_and_indices_out_of_bounds
    test_fixed_sizes = test_random_graphs.test_fixed_sizes
    test_symbolic_sizes = test_random_graphs.test_symbolic_sizes


def test_float32_products_are_not_rounded_to_tf32() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 64, 64)).astype(np.float32)
    device = current_device()
    got = device.library.matmul(device.upload(a), device.upload(b)).get()
    np.testing.assert_allclose(got, a.astype(np.float64) @ b, rtol=1e-4, atol=1e-4)

"""The plans of the kernels that are made meanwhile, or that a function runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import npcompile as npc
from npcompile.backends.cpu import backend
from npcompile.backends.cpu.kernel_plan import KernelPlan
from npcompile.backends.cpu.planning import plan_kernel
from npcompile.backends.kernels.kernel import Kernel


@contextmanager
def noted_plans() -> Iterator[list[KernelPlan]]:
    """In the order in which they are made: those of kernels that restore arguments after an error come last."""
    plans: list[KernelPlan] = []

    def noted(kernel: Kernel) -> KernelPlan:
        plans.append(plan_kernel(kernel))
        return plans[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backend, "plan_kernel", noted)
        yield plans


def plans_of(function: Callable[..., Any], *arguments: Any) -> list[KernelPlan]:
    with noted_plans() as plans:
        npc.explain(function)(*arguments)
    return plans

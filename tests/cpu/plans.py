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
from npcompile.backends.cpu.undo import with_undo
from npcompile.backends.kernels.kernel import Kernel
from npcompile.backends.kernels.memory import build_schedule
from npcompile.tensor_core.graph import Graph


def keeps_what_it_overwrites(graph: Graph) -> bool:
    """Is something of an argument kept that may have to be as it was?"""
    return bool(with_undo(build_schedule(graph, tiled=True))[1].old)


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

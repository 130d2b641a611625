"""Indices that are known to be inside their axes: numbers as others are, so that loops with them have vectors."""

from __future__ import annotations

import numpy as np

from npcompile.backends.kernels.kernel import CheckIndex, Kernel, Let, Statement, children, walk

INT64 = np.dtype(np.int64)


def drop_sure_checks(kernel: Kernel) -> None:
    """The kernel without these checks; it cannot fail when there were no others."""
    if kernel.can_fail:
        without(kernel.body)
        kernel.can_fail = any(isinstance(s, CheckIndex) for s in walk(kernel.body))


def without(body: list[Statement]) -> None:
    for k, s in enumerate(body):
        if isinstance(s, CheckIndex) and s.is_sure:
            body[k] = Let(s.target, "cast", (s.value,), (("dtype", INT64),))
        for part in children(s):
            without(part)

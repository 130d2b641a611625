"""NumPy's test modules whose tests are compiled: what fails there and is meant to, and what takes too long.

The list may only shrink: a test that is named here and passes is an error.
"""

from __future__ import annotations

from dataclasses import dataclass, field

REFERENCES = "counts references, of which the program that runs in the function's place has some of its own"
OVERFLOW = "NumPy warns when integer scalars overflow; what is captured of them wraps without a word"


@dataclass(frozen=True)
class Module:
    graphs: int  # that were captured at least
    fails: dict[str, str] = field(default_factory=dict)  # test -> why
    too_long: tuple[str, ...] = ()  # tests of minutes
    is_quick: bool = True  # runs each time; the others with NPCOMPILE_NUMPY_TESTS=all


MODULES = {
    "numpy._core.tests.test_shape_base": Module(100, too_long=("huge_list",)),  # 2**31 elements
    "numpy._core.tests.test_item_selection": Module(100, {"TestTake::test_refcounting": REFERENCES}),
    "numpy._core.tests.test_half": Module(80),
    "numpy._core.tests.test_nep50_promotions": Module(10, {"test_nep50_weak_integers": OVERFLOW}),
}
ON_CPU = ("numpy._core.tests.test_half",)  # also as generated C

"""NumPy's test modules whose tests are compiled: what fails there and is meant to, and what is left out.

The list may only shrink: a test that is named here and passes is an error.
"""

from __future__ import annotations

from dataclasses import dataclass, field

REFERENCES = "counts references, of which the program that runs in the function's place has some of its own"


@dataclass(frozen=True)
class Module:
    graphs: int  # that were captured at least
    fails: dict[str, str] = field(default_factory=dict)  # test -> why
    left_out: dict[str, str] = field(default_factory=dict)  # test -> why it is not run
    is_quick: bool = True  # runs each time; the others with NPCOMPILE_NUMPY_TESTS=all


MODULES = {
    "numpy._core.tests.test_shape_base": Module(100, left_out={"huge_list": "2**31 elements: minutes"}),
    "numpy._core.tests.test_item_selection": Module(100, {"TestTake::test_refcounting": REFERENCES}),
    "numpy._core.tests.test_half": Module(80),
    "numpy._core.tests.test_nep50_promotions": Module(10),
    "numpy.lib.tests.test_stride_tricks": Module(10),
    "numpy.lib.tests.test_type_check": Module(10),
    "numpy.lib.tests.test_ufunclike": Module(10),
    "numpy.fft.tests.test_helper": Module(10),
    "numpy.lib.tests.test_shape_base": Module(10, is_quick=False),
    "numpy.lib.tests.test_mixins": Module(10, is_quick=False),
    "numpy.lib.tests.test_index_tricks": Module(10, is_quick=False),
    "numpy.lib.tests.test_twodim_base": Module(10, is_quick=False),
    "numpy.lib.tests.test_arraysetops": Module(10, is_quick=False),
    "numpy.lib.tests.test_polynomial": Module(10, is_quick=False),
    "numpy.lib.tests.test_nanfunctions": Module(10, is_quick=False),
    "numpy.lib.tests.test_histograms": Module(10, is_quick=False),
    "numpy.lib.tests.test_arraypad": Module(10, is_quick=False),
    "numpy.lib.tests.test_packbits": Module(10, is_quick=False),
    "numpy.fft.tests.test_pocketfft": Module(10, is_quick=False),
    "numpy.linalg.tests.test_linalg": Module(10, is_quick=False),
    "numpy.random.tests.test_random": Module(10, is_quick=False),
    "numpy.random.tests.test_randomstate": Module(10, is_quick=False),
    "numpy.random.tests.test_randomstate_regression": Module(10, is_quick=False),
    "numpy.random.tests.test_generator_mt19937": Module(10, is_quick=False),
    "numpy.random.tests.test_generator_mt19937_regressions": Module(10, is_quick=False),
    "numpy.random.tests.test_regression": Module(10, is_quick=False),
    "numpy.polynomial.tests.test_polyutils": Module(10, is_quick=False),
    "numpy.polynomial.tests.test_polynomial": Module(10, is_quick=False),
    "numpy.polynomial.tests.test_chebyshev": Module(10, is_quick=False),
    "numpy.polynomial.tests.test_legendre": Module(10, is_quick=False),
    "numpy.polynomial.tests.test_classes": Module(10, is_quick=False),
    "numpy.ma.tests.test_old_ma": Module(10, is_quick=False),
    "numpy.ma.tests.test_extras": Module(10, is_quick=False),
    "numpy.ma.tests.test_subclassing": Module(1, is_quick=False),
    "numpy.ma.tests.test_mrecords": Module(1, is_quick=False),
    "numpy.ma.tests.test_regression": Module(1, is_quick=False),
    "numpy.lib.tests.test_function_base": Module(
        500,
        {"TestLeaks::test_frompyfunc_leaks": REFERENCES, "TestBincount::test_dtype_reference_leaks": REFERENCES},
        is_quick=False,
    ),
    "numpy._core.tests.test_indexing": Module(150, {"TestIndexing::test_small_regressions": REFERENCES}, is_quick=False),
    "numpy._core.tests.test_scalarmath": Module(300, is_quick=False),
    "numpy._core.tests.test_numeric": Module(430, {"TestCreationFuncs::test_for_reference_leak": REFERENCES}, is_quick=False),
    "numpy._core.tests.test_umath": Module(1350, {"TestOut::test_out_wrap_no_leak": REFERENCES}, is_quick=False),
    "numpy._core.tests.test_ufunc": Module(
        500,
        {
            "test_ufunc_out_casterrors": REFERENCES,
            "test_reduce_casterrors": REFERENCES,
            "test_reduction_no_reference_leak": REFERENCES,
        },
        is_quick=False,
    ),
    "numpy._core.tests.test_einsum": Module(100, is_quick=False),
}
ON_CPU = ("numpy._core.tests.test_half",)  # as generated C

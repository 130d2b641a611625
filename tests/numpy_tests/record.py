"""Runs NumPy's own tests on Tensors, and keeps which fail and why: `python -m tests.numpy_tests.record [MODULE ...]`.

It writes failures.toml, which the tests hold to, and docs/numpy-tests.md. A failure that no class of reasons explains is
one of the others.
"""

from __future__ import annotations

import collections
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_name("failures.toml")
PAGE = ROOT / "docs" / "numpy-tests.md"
NUMPY_VERSION = "2.4"  # whose tests the list names
Outcomes = dict[str, tuple[str, str]]  # test -> passed, failed or skipped; the message of what failed

# Module -> tests left out (a pytest expression). What NumPy marks as slow is left out everywhere.
# test_sort_degraded makes half a million views of views, "huge" are arrays of 2 GiB, "extension" crashes: it hands what it is
# given to C unchecked.
SORTS = "sort_int or sort_float or partition_int or partition_fp"  # 12,000 sizes of the same calls of sorts in C
MODULES = {
    "numpy._core.tests.test_umath": "",
    "numpy._core.tests.test_ufunc": "huge_array",  # of 2 GiB
    "numpy._core.tests.test_numeric": "",
    "numpy._core.tests.test_multiarray": f"{SORTS} or sort_degraded or huge or extension",
    "numpy._core.tests.test_indexing": "",
    "numpy._core.tests.test_einsum": "",
    "numpy._core.tests.test_nep50_promotions": "",
    "numpy._core.tests.test_scalarmath": "float_modulus_exact or test_leak",  # 100,000 numbers one by one
    "numpy._core.tests.test_shape_base": "huge_list",  # of 2**31 elements
    "numpy._core.tests.test_item_selection": "",
    "numpy._core.tests.test_half": "",
    "numpy.lib.tests.test_function_base": "",
    "numpy.lib.tests.test_shape_base": "",
    "numpy.lib.tests.test_twodim_base": "",
    "numpy.lib.tests.test_index_tricks": "",
    "numpy.lib.tests.test_nanfunctions": "",
    "numpy.lib.tests.test_arraysetops": "",
    "numpy.lib.tests.test_stride_tricks": "",
    "numpy.lib.tests.test_histograms": "",
    "numpy.lib.tests.test_arraypad": "",
    "numpy.linalg.tests.test_linalg": "",
    "numpy.fft.tests.test_pocketfft": "",
    "numpy.fft.tests.test_helper": "",
}


@dataclass(frozen=True)
class Reason:
    """A class of failures: what tells them in a test's name or its message, and whether they are out of scope."""

    name: str
    text: str
    pattern: str
    out_of_scope: bool = False


def named(*names: str) -> str:
    return "|".join(rf"::{re.escape(name)}\b" for name in names)


REASONS = (
    Reason(
        "reference counts",
        "they count references to an array, or follow when its memory is freed: a Tensor holds an array.",
        r"test_check_ref|test_check_weakref|reference_leak|TestLeaks|holds_reference|dealloc_warning|refcount",
        out_of_scope=True,
    ),
    Reason(
        "internals in C",
        "they hand arrays and ufuncs to functions in C that take nothing else: LAPACK's own, iterators of neighbours, flags for "
        "copies that are written back, documentation and text signatures, loops by address.",
        r"lapack_lite|[nN]eighborhoodIter|newdoc|test_loop_access|ufunc_docstring|test_import_entry_point|TestAsCArray"
        r"|TestCApiAccess|TestWritebackIfCopy|TestTextSignatures|buffer_info_is_corrupted|test_test_interning",
        out_of_scope=True,
    ),
    Reason(
        "buffer protocol",
        "`memoryview(x)` and what else asks for a buffer: classes written in Python can be one from Python 3.12 on. `x.data` is "
        "one.",
        r"bytes-like object is required|buffer interface",
    ),
    Reason(
        "`__array__` of the test's own class",
        "a method `__array__` that itself calls the namespace gives a Tensor, where NumPy wants an ndarray.",
        r"__array__ method not producing an array",
    ),
    Reason(
        "type of arrays",
        "`type(x) is np.ndarray`, or the name in `repr(x)`: the type is Tensor, of which `isinstance(x, np.ndarray)` holds. "
        "NumPy's arrays of objects, and what its iterators hand out, are NumPy's.",
        r"classes\.ndarray'>|consistent_subclass|LinalgCase: nonarray|name 'Tensor' is not defined|is Tensor\(\[|"
        + named(
            "TestNonzero::test_return_type", "TestRequire::test_ensure_array", "TestDiff::test_n", "TestBroadcast::test_broadcast"
        )
        + "|"
        + named(
            "TestZeroRank::test_real_imag", "test__nan_mask", "TestSpecialMethods::test_priority", "TestOut::test_out_wrap_subok"
        )
        + "|"
        + named(
            "TestUfunc::test_array_wrap_array_priority", "TestSubclasses::test_basic", "test_subclasses", "TestIO::test_roundtrip"
        )
        + "|TestBroadcast|test_structured_non_void|test_roundtrip_repr",
    ),
    Reason(
        "array scalars",
        "NumPy gives an array scalar, an instance of np.float64 and so on, which cannot be changed; here it is a Tensor of no "
        "dimensions, through which gradients flow. NumPy's functions that treat scalars and such arrays unlike then do so.",
        r"isinstance\(Tensor\(|DESIRED: <class 'numpy\.\w+'>|<class 'numpy\.\w+'> == <class 'npcompile|is np\.(True|False)_"
        r"|'(float|int|bool|complex)' object has no|isscalar|[sS]calar|array is 0-dimensional|"
        + named(
            "TestIndexing::test_empty_tuple_index", "TestZeroRank::test_empty_subscript", "TestSubscripting::test_test_zero_rank"
        )
        + "|"
        + named("TestVdot::test_basic", "TestMatmul::test_result_types", "TestMatmulOperator::test_result_types")
        + "|"
        + named("TestInterp::test_zero_dimensional_interpolation_point", "TestQuantile::test_correct_quantile_value"),
    ),
    Reason(
        "others",
        "each has a cause of its own. TestHashing: Tensors hash by identity, so that they can be keys. TestDevice: the message "
        "for a device that is set. test_ufunc_binop_interaction, test_ufunc_override_where and test_ufunc_override_with_super: "
        "operands with an `__array_ufunc__` of their own are asked sooner, or with ndarrays. test_pickle_withstring: a pickle of "
        "NumPy's ufunc is NumPy's ufunc.",
        r"",
    ),
)


LONG = [f"numpy._core.tests.test_{name}" for name in ("umath", "ufunc", "numeric", "multiarray")]
PARTS = ("numpy._core.", "numpy.lib.", "numpy.linalg.", "numpy.fft.")
# Modules that one process tests: to start one takes as long as most modules.
TOGETHER = [*([module] for module in LONG), *([m for m in MODULES if m.startswith(part) and m not in LONG] for part in PARTS)]


def command(modules: Sequence[str], outcomes: Path) -> list[str]:
    left_out = " or ".join(filter(None, (MODULES[module] for module in modules)))
    options = ["-q", "-p", "tests.numpy_tests.plugin", "--outcomes", str(outcomes), "-p", "no:cacheprovider", "-W", "ignore"]
    options += ["-p", "no:xdist", "-m", "not slow", "--tb=line"] + (["-k", f"not ({left_out})"] if left_out else [])
    return [sys.executable, "-m", "pytest", *options, "--pyargs", *modules]


def outcomes_of(modules: Sequence[str], folder: Path, namespace: str = "npcompile.numpy_shim") -> dict[str, Outcomes]:
    path = folder / f"{modules[0]}.json"
    # Outside this project, so that its pytest settings do not apply.
    run = subprocess.run(
        [*command(modules, path), "--namespace", namespace],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert path.exists() and run.returncode in (0, 1), run.stdout[-3000:] + run.stderr[-3000:]
    found = json.loads(path.read_text())
    return {module: {name: tuple(outcome) for name, outcome in found[module].items()} for module in modules}


def test_of(name: str) -> str:
    """The test that an id with parameters is one of."""
    return name.partition("[")[0]


def expanded(listed: list[str], names: list[str]) -> set[str]:
    """The ids that a list means: `test[*]` is the test with each of its parameters."""
    whole = {name.removesuffix("[*]") for name in listed if name.endswith("[*]")}
    return {name for name in listed if not name.endswith("[*]")} | {n for n in names if "[" in n and test_of(n) in whole}


def shortened(failed: list[str], outcomes: Outcomes) -> list[str]:
    """The list that `expanded` gives back."""
    total = collections.Counter(test_of(name) for name, (outcome, _) in outcomes.items() if outcome != "skipped")
    count = collections.Counter(map(test_of, failed))
    return sorted({f"{test_of(n)}[*]" if "[" in n and count[test_of(n)] == total[test_of(n)] else n for n in failed})


def reason_of(module: str, name: str, message: str) -> str:
    text = f"{module}::{name}\n{message}"
    return next(reason.name for reason in REASONS if re.search(reason.pattern, text))


def load() -> dict[str, dict]:
    return tomllib.loads(LIST.read_text()) if LIST.exists() else {}


def summary(module: str, outcomes: Outcomes) -> dict:
    """The module's part of the list."""
    failed: dict[str, list[str]] = collections.defaultdict(list)
    for name, (outcome, message) in outcomes.items():
        if outcome == "failed":
            failed[reason_of(module, name, message)].append(name)
    lists = {reason.name: failed[reason.name] for reason in REASONS if reason.name in failed}
    return {
        "passed": sum(outcome == "passed" for outcome, _ in outcomes.values()),
        "failed": {reason: len(names) for reason, names in lists.items()},
        "tests": {reason: shortened(names, outcomes) for reason, names in lists.items()},
    }


def record(modules: list[str]) -> None:
    kept = load()
    with tempfile.TemporaryDirectory() as folder:
        for module in modules:
            kept[module] = summary(module, outcomes_of([module], Path(folder))[module])
            print(module, "passed", kept[module]["passed"], kept[module]["failed"], flush=True)
            LIST.write_text(as_toml(kept))
    PAGE.write_text(page({module: kept[module] for module in MODULES}))


def as_toml(modules: dict[str, dict]) -> str:
    lines = [
        f"# NumPy's own tests ({NUMPY_VERSION}) that fail on Tensors, by reason; `test[*]` fails with each of its parameters.",
        "# Written by `python -m tests.numpy_tests.record`. It may only become shorter.",
    ]
    for module in (m for m in MODULES if m in modules):
        lines += ["", f'["{module}"]', f"passed = {modules[module]['passed']}"]
        lines.append(f"failed = {{ {', '.join(f'{json.dumps(r)} = {n}' for r, n in modules[module]['failed'].items())} }}")
        lines += ["", f'["{module}".tests]']
        for reason, names in modules[module]["tests"].items():
            lines += [f"{json.dumps(reason)} = [", *(f"    {json.dumps(name)}," for name in names), "]"]
    return "\n".join(lines) + "\n"


def share(passed: int, failed: int) -> str:
    return f"{100 * passed / max(passed + failed, 1):.1f} %"


def page(modules: dict[str, dict]) -> str:
    """docs/numpy-tests.md"""
    outside = {reason.name for reason in REASONS if reason.out_of_scope}
    rows, totals = [], [0, 0, 0]
    by_reason: collections.Counter[str] = collections.Counter()
    for module, each in modules.items():
        out = sum(n for reason, n in each["failed"].items() if reason in outside)
        failed = sum(each["failed"].values()) - out
        by_reason.update(each["failed"])
        totals = [totals[0] + each["passed"], totals[1] + failed, totals[2] + out]
        rows.append(f"| `{module}` | {each['passed']} | {failed} | {share(each['passed'], failed)} | {out} |")
    rows.append(f"| all | {totals[0]} | {totals[1]} | {share(totals[0], totals[1])} | {totals[2]} |")
    reasons = [
        f"- **{reason.name}**{' (out of scope)' if reason.out_of_scope else ''}, {by_reason[reason.name]} tests: {reason.text}"
        for reason in REASONS
        if by_reason[reason.name]
    ]
    return PAGE_TEXT.format(version=NUMPY_VERSION, rows="\n".join(rows), reasons="\n".join(reasons), sorts=f"`{SORTS}`")


PAGE_TEXT = """# NumPy's own tests on Tensors

`import npcompile.numpy_shim as np` is a NumPy whose arrays are Tensors. The tests that NumPy {version} installs run against it:
a plugin, `tests/numpy_tests/plugin.py`, replaces `np` in the test modules. What fails is listed one by one, with its reason,
in `tests/numpy_tests/failures.toml`; a test holds the list, which may only become shorter. Tests that NumPy marks as slow are
left out, and some with thousands of parameters or gigabytes of memory (`tests/numpy_tests/record.py` names them).

| module | passed | failed | in scope, passed | out of scope |
|---|---:|---:|---:|---:|
{rows}

Why tests fail:

{reasons}

This page is written by `python -m tests.numpy_tests.record`.
"""

if __name__ == "__main__":
    record(sys.argv[1:] or list(MODULES))

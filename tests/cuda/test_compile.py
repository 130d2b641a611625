"""Generated texts compiled to machine code for an H100 or H200, by the workers and without a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.cuda.programs.primitives import is_native
from npcompile.backends.cuda.runtime import compiler
from npcompile.backends.cuda.runtime.compiler import Binary, CompileFailed, Request, compile_all
from npcompile.compiler import compiled_function
from npcompile.tensor_core import Builder, TensorMeta
from npcompile.tensor_core.decline import Decline
from npcompile.tensor_core.graph import Graph
from npcompile.tensor_core.op import OPS
from npcompile.tensor_core.ops.special import OF_TWO
from tests.cuda.corpus import form_requests, requests_of, sample_requests
from tests.cuda.interpreted import InterpretedDevice
from tests.cuda.test_kernels import array

from npcompile.backends.cuda.backend import compile_for  # isort: skip  # after the interpreter is chosen

DOUBLE = """import triton
import triton.language as tl

@triton.jit
def double(x):
    tl.store(x, tl.load(x) * 2)
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPCOMPILE_CACHE_DIR", str(tmp_path))
    compiler.cubin_cache.cache_clear()


class CompilingDevice(InterpretedDevice):
    """Compiles what it loads, and launches nothing."""

    def load(self, requests):  # type: ignore[no-untyped-def]
        self.binaries: list[Binary] = compile_all(requests, 90)
        return [lambda *_: None for _ in requests]


def compiled(graph: Graph, *arrays: np.ndarray) -> list[Binary]:
    device = CompilingDevice()
    compile_for(graph, device)(*arrays)
    return device.binaries


ARCHITECTURES = pytest.mark.parametrize("architecture", [80, 90])


def test_forms_of_kernels() -> None:
    made = compile_all(form_requests(), 90)
    assert all(b.cubin[:4] == b"\x7fELF" and b.hidden == 2 and b.shared < 48 * 1024 for b in made)


@ARCHITECTURES
def test_sample_programs(architecture: int) -> None:
    made = compile_all(sample_requests(), architecture)
    assert len(made) > 100 and all(b.cubin[:4] == b"\x7fELF" for b in made)


# The texts are the same for all devices, and so are the calls of NVIDIA's library that primitives become.
@pytest.mark.parametrize(
    ("dtype", "architecture"), [*((np.dtype(c), 90) for c in "?bhilBHILefdFD"), *((np.dtype(c), 80) for c in "?lef")]
)
def test_every_primitive(dtype: np.dtype, architecture: int) -> None:
    builder = Builder()
    x, y = (builder.input(TensorMeta((64,), dtype)) for _ in range(2))
    results = []
    for name, op in OPS.items():
        if op.kind == "elementwise" and name not in ("cast", "bitcast", "where", "ldexp", "complex"):
            try:
                node = builder.apply(name, *(x, y)[: op.loops.nin if op.loops else 1 + (name in OF_TWO)])
            except (Decline, TypeError, AssertionError):
                continue
            results += [node] if is_native(node) else []
    results += [builder.apply("cast", x, dtype=np.dtype(c)) for c in "?bhilBHILefdFD"]
    assert compile_all(requests_of(builder.finish(results)), architecture)


def test_second_time_from_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    request = Request("double", DOUBLE, (("x", "*fp32"),))
    (first,) = compile_all([request], 90)
    monkeypatch.setattr(compiler, "workers", lambda: pytest.fail("compiled again"))
    assert compile_all([request], 90) == [first]


def test_another_architecture_is_another_entry() -> None:
    request = Request("double", DOUBLE, (("x", "*fp32"),))
    assert compile_all([request], 80)[0].cubin != compile_all([request], 90)[0].cubin


def test_errors_come_back_with_the_text() -> None:
    wrong = DOUBLE.replace("tl.load(x)", "tl.no_such_function(x)")
    with pytest.raises(CompileFailed, match=r"(?s)no_such_function.*def double"):
        compile_all([Request("double", wrong, (("x", "*fp32"),))], 90)


def test_a_worker_that_dies_is_replaced() -> None:
    dies = "import os\nos._exit(3)\n" + DOUBLE
    with pytest.raises(CompileFailed, match="died with status 3"):
        compile_all([Request("double", dies, (("x", "*fp32"),))], 90)
    assert compile_all([Request("double", DOUBLE, (("x", "*fp64"),))], 90)


def test_triton_and_torch_stay_out_of_this_process(tmp_path: Path) -> None:
    program = f"""
import sys
sys.modules["torch"] = None
from npcompile.backends.cuda.runtime.compiler import Request, compile_all
print(len(compile_all([Request("double", {DOUBLE!r}, (("x", "*fp32"),))], 90)), "triton" in sys.modules)
"""
    environment = os.environ | {"NPCOMPILE_CACHE_DIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert ran.stdout.split() == ["1", "False"], ran.stderr


def machine_code(binary: Binary, folder: Path) -> str:
    """The disassembly, by the tool that Triton brings."""
    import triton

    path = folder / "kernel.cubin"
    path.write_bytes(binary.cubin)
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    return subprocess.run([tool, "-sass", path], capture_output=True, text=True, check=True).stdout


def test_products_and_sums_are_rounded_apart_and_read_in_wide_pieces(tmp_path: Path) -> None:
    builder = Builder()
    x, y = (array(builder, 4096, dtype=np.dtype(np.float32)) for _ in range(2))
    graph = builder.finish([builder.apply("add", builder.apply("multiply", x, y), x)])
    (binary,) = compiled(graph, *np.zeros((2, 4096), np.float32))
    text = machine_code(binary, tmp_path)
    assert "FMUL" in text and "FADD" in text and "FFMA" not in text and ".FTZ" not in text
    assert "LDG.E.128" in text and "STG.E.128" in text


def test_roots_are_exact(tmp_path: Path) -> None:
    builder = Builder()
    x = array(builder, 4096, dtype=np.dtype(np.float32))
    (binary,) = compiled(builder.finish([builder.apply("sqrt", x)]), np.zeros(4096, np.float32))
    assert "MUFU.SQRT" not in machine_code(binary, tmp_path)  # the approximate root


def test_approximations_only_where_they_are_asked_for(tmp_path: Path) -> None:
    def roots(x, y):
        return np.sqrt(np.exp(-x * x) / y + x * y)

    x = np.linspace(1, 2, 4096, dtype=np.float32)
    texts = []
    for accuracy in ("numpy", "fast"):
        function = npc.compile(roots, backend="eager", accuracy=accuracy)
        function(x, x * x)
        ((graph, _),) = compiled_function(function).graphs
        (got,) = compile_for(graph, InterpretedDevice())(x, x * x)
        np.testing.assert_allclose(got, roots(x, x * x), rtol=1e-6)
        (binary,) = compile_all(requests_of(graph), 90)
        texts.append(machine_code(binary, tmp_path))
    exact, fast = texts
    assert "MUFU.SQRT" in fast and "FFMA" in fast and "MUFU.SQRT" not in exact
    assert len(fast) < len(exact) / 2
    with pytest.raises(ValueError, match="unknown accuracy 'high': choose one of numpy, bitwise, fast"):
        npc.compile(roots, accuracy="high")

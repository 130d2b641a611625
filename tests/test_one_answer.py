"""One function has one answer: arrays, rows and elements in loops, comprehensions, vmap and fori_loop give the same bits."""

from __future__ import annotations

import functools
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import threadpoolctl

import npcompile as npc
from tests.native_loops.agreement import program_of
from tests.native_loops.test_native_loops import native_loops

N = 1000
LENGTHS = (*range(1, 41), N)
ROWS = 20
LAYOUTS = ("dense", "further", "apart", "back")
TURNED = {"dense": 1, "further": 1, "apart": 1, "back": -1}
# In loops, of rows: these are left to graphs or to NumPy.
NOT_OF_ROWS = "np.round(9*u) np.clip(u,0.25,0.5) abs(u-v) np.float_power(u,v)".split()
DOUBLE = {"far angles": "np.sin(1e13*u) np.cos(1e12*v)", "of two dtypes": "np.float_power(u,v) np.hypot(u,np.float32(2))"}
REAL = {
    "exponentials": "np.exp(u) np.exp(-40*u) np.exp2(9*u) np.expm1(u) np.log(u) np.log2(u) np.log10(u) np.log1p(u)",
    "angles": "np.sin(9*u) np.cos(9*u) np.tan(u) np.sin(1e3*u) np.cos(1e3*v) np.arcsin(u) np.arccos(u) np.arctan(3*u)",
    "angles of two": "np.arctan2(u-v,v) np.hypot(u,v) np.degrees(u) np.radians(u) np.deg2rad(9*u) np.rad2deg(v)",
    "hyperbolic": "np.sinh(3*u) np.cosh(u) np.tanh(u) np.arcsinh(u) np.arccosh(1+u) np.arctanh(u)",
    "powers": "np.power(u,v) np.power(u,2) np.power(u,3) np.power(u,v*0+4) np.cbrt(u) np.sqrt(u) np.square(u)",
    "sums of logarithms": "np.logaddexp(9*u,v) np.logaddexp2(u,9*v) np.log(np.exp(u)+np.exp(v)) np.exp(-u*u/2)*np.cos(v)",
    "arithmetic": "u+v u-v u*v u/v u//v u%v np.fmod(9*u,v) np.reciprocal(u) np.nextafter(u,v) np.heaviside(u-v,v)",
    "choices": "np.maximum(u,v) np.minimum(u,v) np.fmax(0*u,-v*0) np.fmin(u,v) np.sign(u-v) np.copysign(u,u-v) abs(u-v) -u",
    "rounded": "np.floor(9*u) np.ceil(9*u) np.rint(9*u) np.trunc(9*u-v) np.round(9*u) np.clip(u,0.25,0.5)",
}
COMPLEX = {
    "exponentials": "np.exp(u) np.exp2(u) np.expm1(u) np.log(u) np.log2(u) np.log10(u) np.log1p(u) np.sqrt(u)",
    "circular": "np.sin(u) np.cos(u) np.tan(u) np.arcsin(u) np.arccos(u) np.arctan(u)",
    "hyperbolic": "np.sinh(u) np.cosh(u) np.tanh(u) np.arcsinh(u) np.arccosh(u) np.arctanh(u)",
    "arithmetic": "u+v u-v np.multiply(u,v) u/v np.reciprocal(u) np.square(u) np.absolute(u) -u np.conjugate(u) np.power(u,v)",
}
PROGRAMS = {
    "whole": "def program(x, y, o):\n    u, v = x, y\n    {whole}\n    return o\n",
    "elements": "def program(x, y, o):\n"
    "    for i in range(len(x)):\n        u, v = x[i], y[i]\n        {element}\n    return o\n",
    "pairs": "def program(x, y, o):\n    for i, (u, v) in enumerate(zip(x, y)):\n        {element}\n    return o\n",
    "branches": "def program(x, y, o):\n    for i in range(len(x)):\n        u, v = x[i], y[i]\n"
    "        if u != u:\n            break\n        {element}\n    return o\n",
    "nest": "def program(x, y, o):\n    for j in range(2):\n        for i in range(j, len(x), 2):\n"
    "            u, v = x[i], y[i]\n            {element}\n    return o\n",
    "recurrence": "def program(x, y, o):\n    s = o[0, 0]\n    for i in range(len(x)):\n        u, v = x[i] + s, y[i]\n"
    "        {element}\n        s = 0 * o[0, i]\n    return o\n",
    "rows": "def program(x, y, o):\n    for i in range(len(x)):\n        u, v = x[i], y[i]\n        {element}\n    return o\n",
    "comprehensions": "def program(x, y, o):\n    return np.array([{listed}])\n",
    "vmap": "def program(x, y, o):\n    return np.stack(npc.vmap(lambda u, v: ({items},))(x, y))\n",
    "fori_loop": "def program(x, y, o):\n    u, v = x, y\n    def body(i, o):\n        return np.stack(({items},))\n"
    "    return npc.fori_loop(0, 2, body, o)\n",
}
LOOPS = ("elements", "pairs", "branches", "nest", "recurrence", "rows", "comprehensions")
SPACE = {"np": np, "npc": npc}


def written(way: str, expressions: str) -> Callable[..., Any]:
    found = expressions.split()
    lines = {name: "\n        ".join(f"{at.format(k=k)} = {e}" for k, e in enumerate(found)) for name, at in PLACES.items()}
    if way in ("nest", "whole"):
        lines = {k: t.replace("\n        ", "\n" + " " * (12 if way == "nest" else 4)) for k, t in lines.items()}
    listed = ", ".join(f"[{e} for u, v in zip(x, y)]" for e in found)
    text = PROGRAMS[way].format(**lines, listed=listed, items=", ".join(found))
    return program_of(text.splitlines(), f"{way} of {expressions[:20]}", dict(SPACE))


PLACES = {"whole": "o[{k}]", "element": "o[{k}, i]"}


def numbers(dtype: str, n: int = N) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    x, y = rng.uniform(0.05, 0.95, (2, n)).astype(dtype)
    if dtype[0] == "c":
        x, y = (v + 1j * rng.uniform(-0.95, 0.95, n) for v in (x, y))
    return x.astype(dtype), y.astype(dtype)


def laid_out(x: np.ndarray, n: int, layout: str) -> np.ndarray:
    """The first numbers, in other memory."""
    room = np.empty(3 * N + 8, x.dtype)
    view = {"dense": room, "further": room[1:], "apart": room[::3], "back": room[n - 1 :: -1]}[layout][:n]
    view[:] = x[:n]
    return view


def bits(x: np.ndarray) -> np.ndarray:
    """The bytes of each number. There is one zero among those that a loop over scalars gives."""
    return np.ascontiguousarray(x).view(f"u{x.real.itemsize}")


def answer(program: Any, x: np.ndarray, y: np.ndarray, count: int) -> np.ndarray:
    found = program(x, y, np.zeros((count, *x.shape), x.dtype))
    return np.asarray(found).astype(x.dtype)


def require_same(
    program: Any,
    truth: np.ndarray,
    x: np.ndarray,
    y: np.ndarray,
    expressions: Sequence[str],
    lengths: Sequence[int],
    *,
    is_rows: bool = False,
) -> None:
    for n in lengths:
        name = LAYOUTS[n % len(LAYOUTS)]
        u, v = laid_out(x, n, name), laid_out(y, n, name)
        if is_rows:
            u, v = (np.repeat(numbers[None, :: TURNED[name]], ROWS, axis=0)[:, :: TURNED[name]] for numbers in (u, v))
        found = answer(program, u, v, len(expressions))
        for k, e in enumerate(expressions):
            last = found[k, -1] if is_rows else found[k]
            differ = np.flatnonzero(bits(last) != bits(truth[k, :n]))
            assert not len(differ), f"{e} of {n} numbers, {name}: the bits of {differ} differ"


KINDS = {"f8": REAL | DOUBLE, "f4": REAL, "c16": COMPLEX, "c8": COMPLEX}
ALIKE = [("elements", "nest"), ("branches", "recurrence"), ("whole", "fori_loop"), ("rows", "vmap"), ("comprehensions", "pairs")]
INTERPRETED = {(dtype, way) for dtype in ("c16", "c8") for way in ("rows", "comprehensions")}


def cases(alike: Sequence[tuple[str, str]]) -> list[tuple[str, str, str]]:
    """Of two ways that are compiled alike a family of one dtype has one, and its neighbours and the other dtype the other."""
    starts = [(dtype, name, d + k) for d, (dtype, kind) in enumerate(KINDS.items()) for k, name in enumerate(kind)]
    found = [(dtype, name, ways[k % 2]) for dtype, name, k in starts for ways in alike]
    return [(dtype, name, way) for dtype, name, way in found if (dtype, way) not in INTERPRETED]


@functools.cache
def truth_of(dtype: str, family: str) -> np.ndarray:
    """What whole arrays give."""
    expressions = KINDS[dtype][family]
    return answer(npc.compile(written("whole", expressions)), *numbers(dtype), len(expressions.split()))


@pytest.mark.parametrize(("dtype", "family", "way"), cases(ALIKE))
def test_all_ways_give_the_same_bits(dtype: str, family: str, way: str) -> None:
    expressions, lengths = KINDS[dtype][family].split(), LENGTHS
    if way == "rows":
        expressions = [e for e in expressions if e not in NOT_OF_ROWS]
        lengths = LENGTHS[1:]  # NumPy's power of one number may be a square root
    if way == "comprehensions" and sys.version_info >= (3, 12):
        pytest.skip("comprehensions that are part of the function's own code run in Python, so with NumPy's bits")
    if way == "comprehensions":
        expressions, lengths = expressions[:4], LENGTHS[19::4]  # fewer items are not compiled
    compiled = npc.compile(written(way, " ".join(expressions)))
    places = [KINDS[dtype][family].split().index(e) for e in expressions]
    truth = truth_of(dtype, family)[places]
    require_same(compiled, truth, *numbers(dtype), expressions, lengths, is_rows=way == "rows")
    assert way not in LOOPS or native_loops(compiled)


@pytest.mark.parametrize("way", ["whole", "elements", "rows"])
@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_threads_do_not_change_the_bits(dtype: str, way: str) -> None:
    expressions = "np.exp(u) np.sin(9*u) np.log1p(v) np.power(u,v) np.tanh(u)"
    compiled = npc.compile(written(way, expressions))
    x, y = numbers(dtype, 60000)
    if way == "rows":
        x, y = x.reshape(60, 1000), y.reshape(60, 1000)
    found = []
    for threads in (1, 2):
        with threadpoolctl.threadpool_limits(threads):
            found.append(answer(compiled, x, y, 5))
    np.testing.assert_array_equal(*map(bits, found))
    x, y = x.ravel(), y.ravel()
    np.testing.assert_array_equal(
        bits(found[0].reshape(5, -1)), bits(answer(npc.compile(written("whole", expressions)), x, y, 5))
    )


ELSEWHERE = {
    "without AVX": {"NPCOMPILE_MARCH": "x86-64"},
    "with AVX": {"NPCOMPILE_MARCH": "x86-64-v3"},
    "clang": {"CC": f"{sys.executable} -m ziglang cc"},
    "without libmvec": {},
}
WITHOUT_LIBMVEC = '#!/bin/sh\nfor a; do [ "$a" = -lmvec ] && exit 1; done\nexec cc "$@"\n'


@pytest.mark.skipif(platform.machine() != "x86_64", reason="instruction sets of x86-64")
@pytest.mark.parametrize("where", ELSEWHERE)
def test_other_processors_and_compilers(where: str, tmp_path: Path) -> None:
    if where == "with AVX" and " avx2 " not in Path("/proc/cpuinfo").read_text():
        pytest.skip("the processor has no AVX2")
    changed = dict(ELSEWHERE[where])
    if where == "without libmvec":
        compiler = tmp_path / "cc"
        compiler.write_text(WITHOUT_LIBMVEC)
        compiler.chmod(0o755)
        changed["CC"] = str(compiler)
    families = "f8-exponentials or f8-angles or f4-angles or f8-far or f8-powers or f4-hyperbolic or c16-arithmetic"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        __file__,
        "-k",
        f"({families}) and ({' or '.join(way for two in ALIKE[:2] for way in two)}) and same",
    ]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | changed, check=False)
    assert done.returncode == 0 and " passed" in done.stdout, done.stdout


SCALARS = "u**2 u**3 u**-1 u**0.5 u**v 2.5**v u+v u*v u/v u//v u%v -u abs(u) np.multiply(u,v) np.square(u) np.exp(0.25)*u"
OF_COMPLEX = "u**2 u**3 u**5 u+v u*v u/v -u abs(u) np.absolute(u) np.multiply(u,v) np.square(u) 0.3*u u*(2-0.5j)"


@pytest.mark.parametrize("dtype", ["f8", "f4", "c16", "c8"])
def test_operators_of_scalars_in_loops_are_those_in_graphs(dtype: str) -> None:
    """What NumPy's scalars do is not always what its arrays do: powers of floats, products of complex numbers."""
    expressions = OF_COMPLEX if dtype[0] == "c" else SCALARS
    loop = npc.compile(written("elements", expressions))
    one = npc.compile(program_of([f"def program(u, v):\n    return {', '.join(expressions.split())}"], "one pair", dict(SPACE)))
    x, y = numbers(dtype, 40)
    found = answer(loop, x, y, len(expressions.split()))
    assert native_loops(loop)
    for i, (u, v) in enumerate(zip(x, y)):
        for e, ours, theirs in zip(expressions.split(), found[:, i], one(u, v)):
            assert np.array_equal(bits(ours), bits(np.asarray(theirs).astype(dtype))), (e, u, v)


OF_ROWS = "np.exp(u)*v u@v np.max(u) u.sum() np.dot(u,v) np.hypot(u,v) np.fmax(u,v) np.power(u,v) u*v+u u.min() np.linalg.norm(u)"


@pytest.mark.parametrize(("dtype", "family", "way"), cases(ALIKE[:2]))
def test_bitwise_loops_over_elements_are_compiled_and_give_numpys_bits(dtype: str, family: str, way: str) -> None:
    require_numpys_bits(written(way, KINDS[dtype][family]), KINDS[dtype][family], dtype)


@pytest.mark.parametrize("dtype", ["f8", "f4", "c16", "c8"])
def test_bitwise_operators_of_scalars(dtype: str) -> None:
    expressions = OF_COMPLEX if dtype[0] == "c" else SCALARS
    require_numpys_bits(written("elements", expressions), expressions, dtype)


def require_numpys_bits(program: Callable[..., Any], expressions: str, dtype: str) -> None:
    compiled = npc.compile(program, accuracy="bitwise")
    for n in (1, 7, 20, 300):
        x, y = numbers(dtype, n)
        found, wanted = (answer(f, x, y, len(expressions.split())) for f in (compiled, program))
        for e, ours, theirs in zip(expressions.split(), found, wanted):
            np.testing.assert_array_equal(bits(ours), bits(theirs), err_msg=f"{e} of {n} numbers")
    assert native_loops(compiled)


@pytest.mark.parametrize("expression", OF_ROWS.split())
@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_bitwise_loops_over_rows(dtype: str, expression: str) -> None:
    """What a loop cannot give to the bit is left to graphs and to NumPy."""
    program = written("rows", expression)
    compiled = npc.compile(program, accuracy="bitwise")
    rng = np.random.default_rng(4)
    for n in (1, 2, 9, 40, 300):
        x, y = (rng.uniform(0.1, 2, (ROWS, n)) * rng.integers(0, 2, (ROWS, n)) * rng.choice([1.0, -0.0]) for _ in range(2))
        if "power" in expression:
            x = x + 0.5
        found, wanted = (f(x.astype(dtype), y.astype(dtype), np.zeros((1, ROWS, n), dtype)) for f in (compiled, program))
        np.testing.assert_array_equal(bits(found), bits(wanted), err_msg=f"{n} numbers in a row")

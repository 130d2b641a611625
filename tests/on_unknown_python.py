"""A program that uses every way into the compiler, and checks its answers. A script: test_unknown_python.py runs it.

With an argument it first makes the interpreter one that nobody knows: "version", "opcodes", or "free-threaded".
"""

from __future__ import annotations

import dis
import opcode
import sys
import warnings
from collections import namedtuple

import numpy as np
import numpy.testing

PLANTED = sys.argv[1] if len(sys.argv) > 1 else ""
if PLANTED in ("version", "opcodes"):
    Version = namedtuple("Version", "major minor micro releaselevel serial")
    sys.version_info = Version(3, 99, 0, "final", 0)
if PLANTED == "opcodes":  # with instructions of other names
    dis.opmap = opcode.opmap = {f"{name}_X": number for name, number in dis.opmap.items()}
    vars(opcode).pop("_inline_cache_entries", None)
if PLANTED == "free-threaded":
    sys.abiflags += "t"

# What the interpreter has when a program imports npcompile is what counts.
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    import npcompile as npc
    from npcompile.tracer.bytecode.versions import WHY_UNKNOWN

    X = np.linspace(0.5, 2.0, 6)

    @npc.compile
    def smooth(x, alpha=0.25, *rest, scale=1.0, **named):
        total = 0.0
        for value in x:
            total = alpha * value + (1 - alpha) * total
        return total * scale + len(rest) + sum(named.values())

    class Model:
        def __init__(self):
            self.calls = 0

        @npc.compile
        def step(self, x):
            self.calls += 1
            x[0] = self.calls
            return np.sin(x) @ x

        def __call__(self, x):
            return x + self.calls

    def items(x):
        yield from (float(v) for v in plus_one(x))

    def plus_one(x):
        return x + 1

    def refuses(x):
        if x.sum() > 0:
            raise LookupError("positive")
        return x

    def cube(x):
        return np.sum(x**3)

    model = Model()
    assert abs(smooth(X, 0.5, 1, 2, scale=0.0, more=3) - 5) < 1e-12
    assert 0.5 < smooth(X) < 2
    assert model.step(y := X.copy()) == np.sin(y) @ y and y[0] == model.calls == 1
    assert npc.compile(model)(1) == 2 and npc.compile(model.step)(X.copy()) > 0
    assert list(npc.compile(items)(X)) == list(X + 1)
    for options in ({}, {"backend": "eager"}, {"fullgraph": True}, {"dynamic": True}):
        compiled = npc.compile(plus_one, **options)
        np.testing.assert_array_equal(compiled(X), X + 1)
        assert npc.run_only(compiled)(X)[0] == X[0] + 1
    try:
        npc.compile(refuses)(X)
    except LookupError as error:
        assert error.args == ("positive",) and error.__context__ is error.__cause__ is None
    else:
        raise AssertionError
    account = npc.explain(plus_one)(X)
    np.testing.assert_array_equal(account.result, X + 1)
    if PLANTED or WHY_UNKNOWN:
        assert not account.graphs and "uncompiled" in str(account), account
    npc.reset()
    np.testing.assert_array_equal(npc.disable(plus_one)(X), X + 1)
    npc.allow_in_graph(plus_one)

    np.testing.assert_allclose(npc.grad(cube)(X), 3 * X**2)
    value, gradient = npc.value_and_grad(cube)(X)
    assert value == cube(X) and gradient.shape == X.shape
    np.testing.assert_allclose(npc.compile(npc.grad(cube))(X), 3 * X**2)
    np.testing.assert_allclose(npc.hessian(cube)(X), np.diag(6 * X))
    np.testing.assert_allclose(npc.jacobian(np.sin)(X), np.diag(np.cos(X)))
    np.testing.assert_allclose(npc.jvp(np.sin, (X,), (X,))[1], np.cos(X) * X)
    np.testing.assert_allclose(npc.vjp(np.sin, X)[1](X)[0], np.cos(X) * X)
    np.testing.assert_allclose(npc.vmap(np.dot)(np.eye(6), np.tile(X, (6, 1))), X)
    np.testing.assert_allclose(npc.compile(npc.vmap(cube))(X[:, None]), X**3)
    np.testing.assert_allclose(npc.grad(lambda x: np.sum(npc.checkpoint(np.sin)(x)))(X), np.cos(X))
    np.testing.assert_allclose(npc.grad(lambda x: np.sum(npc.custom_gradient(lambda v: (v, lambda g: 2 * g))(x)))(X), 2.0)
    try:
        npc.grad(refuses)(X)
    except LookupError as error:
        assert error.args == ("positive",)
    else:
        raise AssertionError
    try:
        npc.grad(plus_one)(X)  # no scalar
    except npc.GraphBreakError:
        pass
    else:
        raise AssertionError

    tensor = npc.tensor(X, requires_grad=True)
    npc.wrap_numpy(cube)(tensor).backward()
    np.testing.assert_allclose(np.asarray(tensor.grad), 3 * X**2)
    tensor.grad = None
    np.var(np.where(tensor > 1, tensor, 0.0)).backward()
    assert tensor.grad.shape == X.shape
    assert npc.compile(lambda n: npc.fori_loop(0, n, lambda i, t: t + i, 0))(5) == 10
    assert npc.compile(lambda x: npc.cond(x.sum() > 0, np.sin, np.cos, x))(X)[0] == np.sin(X)[0]

for warning in said:
    print(f"{warning.category.__name__} at {warning.filename}:{warning.lineno}: {warning.message}")

"""Batches of gradients and gradients of batches: both are the gradients of each example."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from npcompile.tensor_core import OPS, Builder, TensorMeta
from npcompile.tensor_core.graph import Node
from npcompile.tensor_core.transforms.batch import batch
from npcompile.tensor_core.transforms.reverse import gradients, is_differentiable
from npcompile.tensor_core.transforms.value import Value
from tests.ops.table import thin
from tests.transforms.cases import CASES, Case, close, execute, floats, has_derivative, meta_of, results_of, stacked

DIFFERENTIABLE = sorted(name for name in CASES if OPS[name].vjp is not None)
COMPILED = [
    "multiply",
    "power",
    "where",
    "broadcast_to",
    "slice_update",
    "concatenate",
    "reduce",
    "scan",
    "gather",
    "scatter",
    "einsum",
]
COUNT = 3


@dataclass
class Pulled:
    """One call of an op, the gradients with respect to its operands, and values for examples of all inputs."""

    case: Case

    def __post_init__(self) -> None:
        rng = np.random.default_rng(11)
        self.builder = Builder()
        examples = [self.case.make(rng) for _ in range(COUNT)]
        self.operands = [self.builder.input(meta_of(x)) for x in examples[0]]
        node = self.builder.apply(self.case.op, *self.operands, **self.case.params)
        self.results = [each for each in results_of(self.builder, node) if is_differentiable(each.meta)]
        self.wrt = [x for x in self.operands if is_differentiable(x.meta)]
        self.cotangents = [self.builder.input(TensorMeta(each.shape, each.dtype)) for each in self.results]
        self.parts = gradients(self.builder, self.results, self.cotangents, self.wrt) if self.results else []
        self.found = [(x, part) for x, part in zip(self.wrt, self.parts) if part is not None]
        self.examples = [[*x, *(floats(*c.shape)(rng).astype(c.dtype) for c in self.cotangents)] for x in examples]

    def expected(self, chosen: Sequence[Node]) -> dict[Node, np.ndarray]:
        """The gradient of each example, along axis 0, where the operands `chosen` differ."""
        graph = self.builder.finish([part for _, part in self.found])
        of_each = []
        for example in self.examples:
            varying = [
                example[k] if x in chosen or x in self.cotangents else self.examples[0][k] for k, x in enumerate(graph.inputs)
            ]
            of_each.append(execute("eager", graph, varying))
        return {x: stacked([each[k] for each in of_each], x.meta) for k, (x, _) in enumerate(self.found)}

    def batched(self, chosen: Sequence[Node]) -> dict[Node, Node]:
        """Inputs for those operands and all cotangents of a batch; their values become part of `values`."""
        made = {}
        self.values = list(self.examples[0])
        for k, x in enumerate([*self.operands, *self.cotangents]):
            if x in chosen or x in self.cotangents:
                made[x] = self.builder.input(TensorMeta((COUNT, *x.shape), x.dtype))
                self.values.append(stacked([example[k] for example in self.examples], x.meta))
        return made


def check(case: Case, subset: Sequence[int], backend: str) -> None:
    pulled = Pulled(case)
    chosen = [pulled.operands[k] for k in subset]
    expected = pulled.expected(chosen)
    new = pulled.batched(chosen)
    builder = pulled.builder
    batch_of_gradients = [node for node, _ in batch(builder, [part for _, part in pulled.found], new, COUNT)]
    results = [node for node, _ in batch(builder, pulled.results, new, COUNT)]
    cotangents = [new[c] for c in pulled.cotangents]
    if not chosen:  # then the results do not differ from example to example
        cotangents = [Value(builder, c).sum([0]).node for c in cotangents]
    gradients_of_batch = gradients(builder, results, cotangents, [new.get(x, x) for x, _ in pulled.found])
    assert all(node is not None for node in gradients_of_batch)
    graph = builder.finish([*batch_of_gradients, *(node for node in gradients_of_batch if node is not None)])
    found = execute(backend, graph, pulled.values)
    for (x, _), each, together in zip(pulled.found, found, found[len(pulled.found) :]):
        wanted = expected[x]
        close(each, wanted, 1e5)
        close(together, wanted if x in new else wanted.sum(0, x.dtype), 1e5)


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients_and_batches_commute(name: str) -> None:
    calls = [(case, subset) for case in CASES[name] if has_derivative(case) for subset in [(), *case.subsets()]]
    for case, subset in thin("cpu", calls, 24):
        check(case, subset, "eager")


@pytest.mark.parametrize("name", COMPILED)
def test_compiled_gradients_and_batches_commute(name: str) -> None:
    calls = [(case, subset) for case in CASES[name] if has_derivative(case) for subset in case.subsets()]
    for case, subset in thin("cpu", calls, 3):
        check(case, subset, "cpu")


def test_a_custom_gradient_of_one_example_is_one_of_all() -> None:
    """The rule reads the argument, which differs from example to example."""
    builder = Builder()
    x, xs, gs = (builder.input(TensorMeta(shape, np.dtype(float))) for shape in ((4,), (3, 4), (3, 4)))
    node = builder.apply("custom_gradient", builder.apply("sin", x), x, rule=lambda g: [g * Value(builder, x) * 10])
    ((made, _),) = batch(builder, [Value(builder, node).square().node], {x: xs}, 3)
    gradient, *_ = gradients(builder, [made], [gs], [xs])
    assert gradient is not None
    a, g = np.random.default_rng(1).uniform(-1, 1, (2, 3, 4))
    (found,) = execute("eager", builder.finish([gradient]), [a[0], a, g])
    close(found, g * 2 * np.sin(a) * a * 10)

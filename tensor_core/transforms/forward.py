"""Forward-mode derivatives: the vector-Jacobian product transposed once more, so that one table of rules serves both.

The vector-Jacobian product is linear in its cotangents, so what its own transpose does to tangents is the Jacobian-vector
product. No value of the cotangents enters it: they are placeholders.
"""

from __future__ import annotations

from collections.abc import Sequence

from npcompile.tensor_core.graph import Builder, Node, topological
from npcompile.tensor_core.transforms.replay import replay
from npcompile.tensor_core.transforms.reverse import gradients, is_differentiable
from npcompile.tensor_core.transforms.stand_in import stand_in


def derivatives(
    builder: Builder, outputs: Sequence[Node], wrt: Sequence[Node], tangents: Sequence[Node | None]
) -> list[Node | None]:
    """The Jacobian-vector product: for each output, the sum of d output / d node times the tangent of each node of `wrt`.

    A tangent has its node's shape and dtype; the result has the output's. None, given or returned, is zero.
    `derivatives(b, [sin(x)], [x], [t])` is `[multiply(t, cos(x))]`. Complex values move as complex numbers do, also
    through functions that are not holomorphic: the derivative of conjugate(z) along t is conjugate(t).

    Declines at an op that has no derivative.
    """
    moving = [(node, t) for node, t in zip(wrt, tangents, strict=True) if t is not None and is_differentiable(node.meta)]
    placeholders = {
        k: stand_in(builder, output.shape, output.dtype)
        for k, output in enumerate(outputs)
        if moving and is_differentiable(output.meta)
    }
    cotangents = [placeholders.get(k) for k in range(len(outputs))]
    pulled = gradients(builder, outputs, cotangents, [node for node, _ in moving])
    used = [(g, t) for g, (_, t) in zip(pulled, moving) if g is not None]
    pushed = gradients(builder, [g for g, _ in used], [t for _, t in used], list(placeholders.values()))
    known = {k: node for k, node in zip(placeholders, pushed) if node is not None}
    if not set(placeholders.values()).isdisjoint(topological(list(known.values()))):
        zeros = {each: each.inputs[0] for each in placeholders.values()}
        known = dict(zip(known, replay(builder, list(known.values()), zeros)))
    return [known.get(k) for k in range(len(outputs))]

"""The one walk under all transforms: the nodes of a program made again, with some of them replaced."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from npcompile.tensor_core.graph import Builder, Node, topological

# (builder, node, its inputs made anew) -> what the node becomes.
Handler = Callable[[Builder, Node, Sequence[Node]], Node]


def remake(builder: Builder, node: Node, inputs: Sequence[Node]) -> Node:
    """The same op of other inputs."""
    return builder.apply(node.op, *inputs, **node.params)


def replay(builder: Builder, results: Sequence[Node], replaced: Mapping[Node, Node], handler: Handler = remake) -> list[Node]:
    """`results` made again in `builder`, with the nodes that `replaced` names as given there.

    Nodes of the same builder that depend on none of `replaced` stay what they are. Leaves of another builder are made
    anew, except its inputs, which `replaced` must name.
    """
    made: dict[Node, Node] = dict(replaced)
    for node in topological(results, replaced):
        if node in made:
            continue
        inputs = [made[i] for i in node.inputs]
        is_same = node.inputs and all(a is b for a, b in zip(inputs, node.inputs))
        if node.op == "input" or is_same:
            made[node] = node
        else:
            location, builder.location = builder.location, node.location or builder.location
            made[node] = handler(builder, node, inputs)
            builder.location = location
    return [made[n] for n in results]

"""Sums of squares. One that is 0 is as small as it gets: a root of it, such as a norm, has the subgradient 0 there."""

from itertools import count

from npcompile.tensor_core.graph import Node

MOVED = ("alias", "laid_out", "permute", "reshape", "broadcast_to", "slice", "gather", "real", "cast")
OF_ALL = ("add", "maximum", "minimum", "concatenate")
REDUCERS = ("add", "maximum", "minimum")
MOST = 64  # nodes looked at


def is_sum_of_squares(node: Node) -> bool:
    """Is it seen to be one? Sums of powers of sizes are too, and products with any number."""
    seen = count()
    carries: set[Node] = set()  # of loops, of which the next is one if they are

    def ask_result(node: Node, k: int) -> bool:
        """Of control flow, the result of number k."""
        if node.op == "cond":
            return all(ask(node.params[name].outputs[k]) for name in ("true_graph", "false_graph"))
        if node.op not in ("for_loop", "while_loop") or k >= node.params["carried"]:
            return False
        body = node.params["body_graph"]
        carries.add(body.inputs[k])
        return ask(node.inputs[k]) and ask(body.outputs[k])

    def ask(node: Node) -> bool:
        if next(seen) >= MOST:
            return False
        if node in carries:
            return True
        match node.op:
            case "item":
                return ask_result(node.inputs[0], node.params["index"])
            case "square":
                return True
            case "constant":
                return bool(node.params["value"] == 0)  # with a positive one a sum is never 0
            case "power" | "float_power" | "scalar_power":
                return is_size(node.inputs[0]) or (number_of(node.inputs[1]) or 0) > 1
            case "multiply":
                return is_norm(*node.inputs) or any(ask(x) for x in node.inputs if number_of(x) is None)
            case "einsum":
                return len(set(node.params["inputs"])) == 1 and len(node.inputs) == 2 and is_norm(*node.inputs)
            case "divide":
                return number_of(node.inputs[0]) is None and ask(node.inputs[0])
            case "where":
                return all(map(ask, node.inputs[1:]))
            case "reduce":
                return node.params["reducer"] in REDUCERS and ask(node.inputs[0])
        return node.op in MOVED and ask(node.inputs[0]) or node.op in OF_ALL and all(map(ask, node.inputs))

    return ask(node)


def is_norm(a: Node, b: Node) -> bool:
    """Is one the other, or its conjugate?"""
    return a is b or a.op == "conjugate" and a.inputs == (b,) or b.op == "conjugate" and b.inputs == (a,)


def is_size(node: Node) -> bool:
    return node.op in ("absolute", "fabs") or node.op in MOVED and is_size(node.inputs[0])


def number_of(node: Node) -> float | None:
    """The real part of the constant that all elements are."""
    while node.op in ("broadcast_to", "reshape"):
        (node,) = node.inputs
    return float(node.params["value"].real) if node.op == "constant" else None

"""Random numbers that the graph computes by itself, from a key that each program draws once from a generator of the user's."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from npcompile.numpy_shim.indexing import getitem
from npcompile.numpy_shim.random_bits import DISTRIBUTIONS, FLOAT64, LARGEST_RANGE, UINT64, Bits, Distribution, counter
from npcompile.numpy_shim.registry import FUNCTIONS, as_array
from npcompile.tensor_core.array import Array, fresh, reshape
from npcompile.tensor_core.dim import Dim, Size, hint_of
from npcompile.tensor_core.graph import FLOAT_ERRORS, Node
from npcompile.tensor_core.guards import Ordered, within
from npcompile.tensor_core.meta import Shape, broadcast_shapes
from npcompile.tensor_core.number import Number
from npcompile.tensor_core.python_operators import COMPARE
from npcompile.tensor_core.source import Literal, Source
from npcompile.tensor_core.transforms.stand_in import stand_in
from npcompile.tensor_core.transforms.value import Value
from npcompile.tracer.arrays.draws import (
    SIZES_ARE_ARGUMENTS,
    argument,
    bound,
    drawn,
    example_of,
    generator_of,
    size_of,
    tried,
    twin,
)
from npcompile.tracer.frame import Frame
from npcompile.tracer.python.arithmetic import number_source
from npcompile.tracer.python.calls import Arguments, Keywords
from npcompile.tracer.python.operators import lower
from npcompile.tracer.random_state import key_of

LARGEST_PERMUTATION = 2**24


def draw(frame: Frame, function: Any, owner: Any, positional: Arguments, keywords: Keywords) -> Array | None:
    """Numbers of the same distribution as those of `function(owner, *positional, **keywords)`. None: NumPy has to draw."""
    name = function.__name__
    size = size_of(frame, function, positional, keywords)
    if name in DISTRIBUTIONS:
        arguments = {} if name in SIZES_ARE_ARGUMENTS else bound(function, positional, keywords)
        return variates(frame, function, owner, {k: lower(frame.capture, v) for k, v in arguments.items()}, size)
    if size is None or name not in ("integers", "randint", "choice"):
        return None
    _, kind = generator_of(frame, owner)
    given, named = [argument(frame, v) for v in positional], {k: argument(frame, v) for k, v in keywords.items()}
    example, shape = example_of(function, kind, given, named, size)  # declines what NumPy refuses
    if shape != size:
        return None
    values = {k: lower(frame.capture, v) for k, v in bound(function, positional, keywords).items()}
    return choice(frame, owner, values, shape) if name == "choice" else integers(frame, owner, values, shape, example.dtype)


def bits(frame: Frame, owner: Any, shape: Shape) -> Bits:
    """New random bits. Under vmap they are others for each example."""
    capture = frame.capture
    capture.require_no_body("a random number")
    source, _ = generator_of(frame, owner)
    key, count = capture.draws.keys.get(str(source)) or (new_key(frame, source), 0)
    capture.draws.keys[str(source)] = key, count + 1
    batches = capture.draws.batches
    whole = Bits.of(capture.builder, (*(size for size, _ in batches), *shape), count, key)
    for _, batched in batches:
        for half in ("low", "high"):
            all_examples = getattr(whole, half).node
            one = stand_in(capture.builder, all_examples.shape[1:], UINT64)
            batched[one] = all_examples
            setattr(whole, half, Value(capture.builder, one))
    return whole


def new_key(frame: Frame, source: Source) -> Node:
    text = f"{frame.capture.name_constant(key_of)}({source})"
    return drawn(frame, text, np.uint64(0)).node


def result(frame: Frame, value: Value, dtype: np.dtype) -> Array:
    return fresh(frame.capture.builder, value.cast(dtype).node)


def variates(frame: Frame, function: Any, owner: Any, values: dict[str, Any], size: Shape | None) -> Array | None:
    distribution, builder = DISTRIBUTIONS[function.__name__], frame.capture.builder
    parameters = {p: values.get(p, DEFAULTS.get(p, 0.0)) for p in distribution.parameters}
    arrays = [x for x in parameters.values() if isinstance(x, Array)]
    shape = size if not arrays else broadcast_shapes(*(x.shape for x in arrays), *([size] if size is not None else []))
    if not shape or size is not None and shape != size or not is_taken(parameters, distribution):
        return None
    _, kind = generator_of(frame, owner)
    examples = {k: example_like(x) for k, x in values.items() if k != "size"}
    sizes: dict[str, Any] = {} if function.__name__ in SIZES_ARE_ARGUMENTS else {"size": (0,)}
    example = tried(function, twin(kind), *([] if sizes else [0]), **examples, **sizes)  # declines what NumPy refuses
    ignored = builder.ignored
    builder.ignored |= FLOAT_ERRORS  # NumPy's draws report none
    given = [Value(builder, as_array(builder, x, FLOAT64).node) for x in parameters.values()]
    given = [x.broadcast_to(shape) if x.ndim else x for x in given]
    found = distribution.formula(bits(frame, owner, shape), example.dtype, *given)
    builder.ignored = ignored
    return result(frame, found, example.dtype)


DEFAULTS = {"scale": 1.0, "sigma": 1.0, "high": 1.0}


def example_like(x: Any) -> Any:
    return 0.5 if isinstance(x, Array) else x.hint if isinstance(x, Number) else hint_of(x) if isinstance(x, Dim) else x


def is_taken(parameters: dict[str, Any], distribution: Distribution) -> bool:
    """Are these parameters that NumPy takes, far from the ends of float64? Guarded. Of arrays any number has to be one."""
    for name, x in parameters.items():
        if isinstance(x, Array):
            if name in distribution.positive or distribution.is_ascending or x.dtype.kind not in "biuf":
                return False
        elif not is_within(x, 0.0 if name in distribution.positive else -1e300, 1e300):
            return False
    values = list(parameters.values())
    if not distribution.is_ascending:
        return True
    return all(is_below(a, b) for a, b in pairwise(values)) and is_below(values[0], values[-1], "<")


def is_within(x: Any, low: float, high: float) -> bool:
    """Is a Python number in this range? Guarded."""
    if isinstance(x, Number):
        if not isinstance(x.hint, float) or not low < x.hint < high:
            return False
        x.env.assume(within(Literal(low), x.source, Literal(high), ("<", "<")))
        return True
    if isinstance(x, Dim):
        return low < 0 or x > 0
    return isinstance(x, (int, float)) and low < x < high


def is_below(a: Any, b: Any, relation: str = "<=") -> bool:
    answer = bool(COMPARE[relation](example_like(a), example_like(b)))
    traced = next((x for x in (a, b) if isinstance(x, (Number, Dim))), None)
    if traced is not None:
        traced.env.assume(Ordered((number_source(a), number_source(b)), (relation,), answer))
    return answer


def integers(frame: Frame, owner: Any, values: dict[str, Any], shape: Shape, dtype: np.dtype) -> Array | None:
    low, high = values["low"], values.get("high")
    if high is None:
        low, high = 0, low
    if not all(isinstance(v, Dim) or type(v) is int for v in (low, high)) or dtype.kind not in "iu":
        return None
    last = high - (not values.get("endpoint", False))
    count, limits = last - low + 1, np.iinfo(dtype)
    if not is_range(count) or not limits.min <= low or not last <= limits.max:
        return None
    found = bits(frame, owner, shape).integers(count).cast(dtype)
    return result(frame, found + found.like(low), dtype)


def is_range(count: Size) -> bool:
    return 1 <= count <= LARGEST_RANGE


def choice(frame: Frame, owner: Any, values: dict[str, Any], shape: Shape) -> Array | None:
    """Of the numbers from 0 to `a`."""
    n, builder = values["a"], frame.capture.builder
    if not (isinstance(n, Dim) or type(n) is int) or not is_range(n) or values.get("p") is not None:
        return None
    if values.get("replace", True):
        return result(frame, bits(frame, owner, shape).integers(n), np.dtype(np.int64))
    count: Size = 1
    for k in shape:
        count = count * k
    order = permutation(frame, owner, n) if count <= n else None
    if order is None:
        return None
    first = getitem(builder, order, slice(0, count))
    return reshape(FUNCTIONS[np.copy](builder, first), shape)


def permutation(frame: Frame, owner: Any, n: Size) -> Array | None:
    """The order of as many random numbers of 40 bits: sorted with their positions below these."""
    if not (isinstance(n, Dim) or type(n) is int) or not n <= LARGEST_PERMUTATION:
        return None
    builder = frame.capture.builder
    keys = bits(frame, owner, (n,)).low
    mask = LARGEST_PERMUTATION - 1
    keys = keys.op("bitwise_and", 2**64 - 1 - mask) + keys.of(counter(builder, (n,)))
    ordered = FUNCTIONS[np.sort](builder, fresh(builder, keys.node))
    return result(frame, keys.of(ordered.node).op("bitwise_and", mask), np.dtype(np.int64))

"""What is asked of range objects: answered from their ends, and never by their items."""

from __future__ import annotations

from npcompile.tensor_core.dim import Dim
from npcompile.tensor_core.meta import Decline
from npcompile.tracer.capture import Capture
from npcompile.tracer.python import arithmetic
from npcompile.tracer.python.arithmetic import hint, plain_number
from npcompile.tracer.raising import raises
from npcompile.tracer.values import Constant, RangeValue, SliceValue

Integer = int | Dim


def made_of(start: Integer, stop: Integer, step: int) -> RangeValue:
    first, last = (n if isinstance(n, Dim) else Constant(n) for n in (start, stop))
    return RangeValue(first, last, step)


def ends(span: RangeValue) -> tuple[Integer, Integer]:
    return plain_number(span.start), plain_number(span.stop)


def count_now(span: RangeValue) -> int:
    """How many items it has at the sizes of this call. len() has no answer beyond sys.maxsize."""
    start, stop = map(hint, ends(span))
    return max(0, (stop - start + span.step - (1 if span.step > 0 else -1)) // span.step)


def length(capture: Capture, span: RangeValue) -> Integer:
    start, stop = ends(span)
    first, last = (start, stop) if span.step > 0 else (stop, start)
    if not first < last:
        return 0
    distance = arithmetic.binary(capture, "-", last, first)
    step = abs(span.step)
    return distance if step == 1 else arithmetic.binary(capture, "//", distance - 1, step) + 1


def at(capture: Capture, span: RangeValue, place: Integer) -> Integer:
    """start + place * step"""
    return arithmetic.binary(capture, "+", ends(span)[0], arithmetic.binary(capture, "*", place, span.step))


def item(capture: Capture, span: RangeValue, index: Integer) -> Integer:
    """`span[index]`"""
    count = length(capture, span)
    place = arithmetic.binary(capture, "+", index, count) if index < 0 else index
    if place < 0 or not place < count:
        raise raises(IndexError, "range object index out of range")
    return at(capture, span, place)


def part(capture: Capture, span: RangeValue, key: SliceValue) -> RangeValue:
    """`span[start:stop:step]`, as slice.indices() has it."""
    start, stop, step = (plain_number(capture.realize(v)) for v in (key.start, key.stop, key.step))
    if not all(n is None or type(n) is int or isinstance(n, Dim) for n in (start, stop)) or type(step) not in (int, type(None)):
        raise Decline("a slice of a range by what is not an integer")
    if step == 0:
        raise raises(ValueError, "slice step cannot be zero")
    step, count = step or 1, length(capture, span)
    least, most = (0, count) if step > 0 else (-1, count - 1)

    def within(place: Integer) -> Integer:
        if place < 0:
            place = arithmetic.binary(capture, "+", place, count)
            return least if place < least else place
        return most if most < place else place

    begin = (least if step > 0 else most) if start is None else within(start)
    end = (most if step > 0 else least) if stop is None else within(stop)
    return made_of(at(capture, span, begin), at(capture, span, end), span.step * step)


def backwards(capture: Capture, span: RangeValue) -> RangeValue:
    """What reversed() goes over."""
    return part(capture, span, SliceValue(Constant(None), Constant(None), Constant(-1)))


def holds(capture: Capture, span: RangeValue, number: Integer) -> bool:
    """`number in span`"""
    start, stop = ends(span)
    is_between = (start <= number and number < stop) if span.step > 0 else (stop < number and number <= start)
    if not is_between or abs(span.step) == 1:
        return bool(is_between)
    rest: Integer = arithmetic.binary(capture, "%", arithmetic.binary(capture, "-", number, start), abs(span.step))
    return bool(rest == 0)

"""Ranges are known by their ends, wherever they come from, and what is long is left to Python while capturing."""

import itertools

import numpy as np
import pytest

import npcompile as npc
from npcompile.compiler import compiled_function
from tests.covering import pairs
from tests.tracer.harness import check

FAR = range(10**12)
BEYOND = range(-5, 10**30, 3)
LONG_LIST, LONG_DICT, LONG_SET = [*range(50_000)], {str(k): k for k in range(50_000)}, {*range(50_000)}
LONG_TEXT = "ab" * 2_000_000


class Holder:
    def __init__(self):
        self.span = range(3, 10**12, 7)


def with_default(k, span=range(10**12)):
    return span[k], span[-k], len(span), k in span, -k in span


def same(function, *calls):
    """The plain function's answers, twice each; returns what was compiled."""
    compiled = npc.compile(function, backend="eager")
    for _ in range(2):
        for given in calls:
            try:
                expected = function(*given)
            except Exception as error:
                with pytest.raises(type(error)) as raised:
                    compiled(*given)
                assert str(raised.value) == str(error)
            else:
                assert repr(compiled(*given)) == repr(expected)
    return compiled_function(compiled)


@check()
def test_a_global_is_not_expanded():
    for k in FAR:
        if k > 3:
            return k, len(FAR), FAR[7:9], FAR


@check(FAR, BEYOND)
def test_arguments(span, beyond):
    first = [(a, b) for a, b in zip(span, "abc")]
    return first, next(reversed(span)), next(map(abs, beyond)), next(enumerate(beyond)), beyond[5], 10**29 in beyond, beyond


@check(lambda round: Holder())
def test_an_attribute_and_a_default(holder):
    return [k for k, _ in zip(holder.span, range(4))], holder.span[2], holder.span.step, with_default(5)


@check(FAR)
def test_an_iterator_goes_on_after_a_break(span):
    after, back = iter(span), reversed(span)
    taken = next(after), next(after), next(back)
    npc.graph_break()
    return taken, next(after), next(back)


@check(FAR)
def test_the_object_itself_is_handed_on(span):
    return span, span is FAR


def test_ends_that_change_are_no_new_programs():
    def f(span, k):
        return len(span), span[k], k in span, span[1:], span[::-1].start, span.stop

    known = same(f, *[(range(n), 3) for n in range(5, 40)])
    assert len(known.points) == 1
    assert len(next(iter(known.points.values())).variants) <= 4


SPANS = [range(a, b, s) for a in (-3, 0, 2) for b in (-4, 0, 1, 7) for s in (-3, -1, 1, 2)]


@pytest.mark.parametrize(
    ("start", "step", "a", "b", "k"), pairs((None, -9, -2, 0, 1, 9), (None, -2, -1, 1, 3), (-3, 0), (-5, 0, 6), (-4, 0, 2))
)
def test_slices(start, step, a, b, k):
    def f(a, b, k):
        span = range(a, b, 2)
        return span[start:k:step], span[k:start:step], [*reversed(span[k::step])], bool(span)

    same(f, (a, b, k))


def test_items_members_and_lengths():
    def f(span, k):
        return len(span), bool(span), k in span, [*span], [*reversed(span)], span == range(0, 7, 2), span[k]

    for span in SPANS:
        same(f, *[(span, k) for k in (-4, 0, 1, 2, 3)])


def test_whether_a_range_is_empty_is_asked():
    def f(n):
        return "some" if range(n) else "none"

    same(f, (5,), (0,), (3,), (-1,))


@check(range(2, 12, 3))
def test_as_indices_and_as_arrays(span, x):
    return x[1:][range(2)], np.array(span), x.take(range(3), axis=1), np.stack([x[:, k] for k in range(3)])


@check(FAR, 3)
def test_loops_that_end_early(span, k):
    total = 0
    for a, b in zip(span, range(k)):
        total += a * b
    for n in span:
        if n * n > 50:
            break
    return total, n, any(i == 5 for i in span), next(i for i in span if i > 20)


@pytest.mark.parametrize(
    "look",
    (
        lambda: (len(LONG_LIST), LONG_LIST[-1], sum(LONG_LIST)),
        lambda: (LONG_DICT["7"], LONG_DICT.get("no"), "8" in LONG_DICT, len(LONG_DICT), next(iter(LONG_DICT))),
        lambda: (7 in LONG_SET, -7 in LONG_SET, len(LONG_SET)),
        lambda: (len(LONG_TEXT), LONG_TEXT[5], LONG_TEXT == "a", LONG_TEXT.startswith("ab")),
        lambda: (len("ab" * 10**7), len([0] * 10**6), len((1, 2) * 10**6), len(b"a" * 10**7)),
        lambda: ((3**10**5).bit_length(), (1 << 10**7).bit_length(), len(f"{1:9000000}"), len("a".ljust(10**7))),
        lambda: (len([*range(10**5)]), max(range(10**5)), len({*range(10**5)}), sorted(range(10**5))[5]),
        lambda: (len(dict.fromkeys(range(10**5))), len(list(itertools.repeat(0, 10**5)))),
    ),
)
def test_nothing_long_is_kept(look):
    compiled = npc.compile(look, backend="eager")
    for _ in range(2):
        assert compiled() == look()
    known = compiled_function(compiled)
    held = [v for v in known.namespace.values() if isinstance(v, str | bytes | list | tuple | dict | set)]
    ours = [v for v in held if not any(v is given for given in (LONG_LIST, LONG_DICT, LONG_SET, LONG_TEXT))]
    assert all(len(v) <= 10_000 for v in ours)
    sources = [point.source for point in known.points.values()]
    assert all(len(text) < 10_000 for text in sources), max(map(len, sources))


def test_single_items_and_lengths_of_long_containers_stay_in_the_graph():
    def f(items, table, x):
        for k, item in zip(range(3), items):
            x = x + k * item
        return x + items[-1] + len(items) + len(table), bool(items), table["5"], items

    made = [([*range(n)], {str(k): k for k in range(n)}, np.ones(2)) for n in (20_000, 20_001, 30_000, 5, 20_002, 40_000)]
    compiled = npc.compile(f, backend="eager")
    for given in made[:3] * 2:
        assert repr(compiled(*given)) == repr(f(*given))
    assert not compiled_function(compiled).breaks
    for given in made:
        try:
            expected = f(*given)
        except KeyError:
            with pytest.raises(KeyError):
                compiled(*given)
        else:
            assert repr(compiled(*given)) == repr(expected)


def test_a_long_list_that_grows():
    def f(items):
        before, last = len(items), items[-1]
        items.append(before)
        return before, last, len(items), items[-1], bool(items)

    compiled = npc.compile(f, backend="eager")
    ours, theirs = [*range(10_001)], [*range(10_001)]
    for _ in range(3):
        assert compiled(ours) == f(theirs)
    assert ours == theirs


def test_zip_that_must_be_as_long_asks_for_lengths():
    def f(a, b):
        return next(zip(a, b, strict=True)), [x for x, _ in zip(a, b, strict=True)][-1]

    same(f, ([*range(20_000)], [*range(20_000)]), ([*range(20_000)], [*range(20_001)]), ([*range(3)], [*range(20_001)]))

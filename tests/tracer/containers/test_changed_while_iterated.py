"""An iterator that outlives a graph runs over its container as it was when Python made the iterator."""

import collections
import enum
import itertools
from itertools import (
    accumulate,
    chain,
    combinations,
    compress,
    cycle,
    dropwhile,
    filterfalse,
    groupby,
    islice,
    pairwise,
    permutations,
    product,
    repeat,
    starmap,
    takewhile,
    zip_longest,
)

import numpy as np
import pytest

import npcompile as npc
from tests.tracer.harness import check


class Shelf:
    def __init__(self):
        self.books = {"first": 1, "second": 2}


TABLE = {}


def names(*given):
    return lambda round: {name: k for k, name in enumerate(given)}


@check(lambda round: [1, 2, 3])
def test_what_was_appended_comes_first_backwards(items):
    items.append(4)
    backwards = reversed(items)
    npc.graph_break()
    return list(backwards)


@check(names("a", "b"))
def test_a_key_that_was_put_back_is_met_once(table):
    table["a"] = table.pop("a")
    met = []
    for key in table:
        npc.graph_break()
        met.append(key)
    return met


@check(names("a"))
def test_a_loop_over_a_dict_with_another_key(table, x):
    table["data"] = x * 2
    total = 0
    for key, value in table.items():
        npc.graph_break()
        total = total + value
    return total, key


@pytest.mark.parametrize("change", ("put", "del", "clear", "update", "setdefault", "popitem", "or"))
def test_each_way_to_change_a_dict(change):
    def f(table):
        if change == "put":
            table["new"] = 1
        elif change == "del":
            del table["a"]
        elif change == "clear":
            table.clear()
        elif change == "update":
            table.update(new=1, b=2)
        elif change == "setdefault":
            table.setdefault("new", 3)
        elif change == "popitem":
            table.popitem()
        else:
            table |= {"new": 1}
        after = iter(table.values())
        npc.graph_break()
        return list(after), list(table)

    compiled = npc.compile(f, backend="eager")
    for _ in range(2):
        assert compiled({"a": 1, "b": 2}) == f({"a": 1, "b": 2})


@check(names("a", "b"))
def test_zip_map_filter_and_generators(table):
    table["c"] = 5
    zipped, mapped = zip(table, table.values()), map(str, table)
    chosen, made = filter(None, table.values()), (k + "!" for k in table)
    chained, backwards = itertools.chain(table, table), reversed(table.items())
    npc.graph_break()
    return list(zipped), list(mapped), list(chosen), list(made), list(chained), list(backwards)


@check(names("a", "b"))
def test_in_tuples_cells_and_functions(table):
    table["c"] = 5
    pair = (1, [iter(table)])
    kept = iter(table.items())

    def rest(given=iter(table.values())):  # noqa: B008
        return list(kept), list(given)

    npc.graph_break()
    return list(pair[1][0]), rest()


@check(lambda round: Shelf())
def test_kept_in_an_attribute(shelf):
    shelf.books["third"] = 3
    shelf.after = iter(shelf.books)
    shelf.books = {}
    npc.graph_break()
    return list(shelf.after)


@check(lambda round: Shelf())
def test_an_attribute_that_is_set_again(shelf):
    shelf.after = None
    shelf.books["third"] = 3
    shelf.after = iter(shelf.books)
    npc.graph_break()
    found, shelf.after = list(shelf.after), None
    return found


@check()
def test_a_global_dict():
    TABLE.clear()
    TABLE["one"], TABLE["two"] = 1, 2
    after = iter(TABLE)
    next(after)
    npc.graph_break()
    return list(after)


@check(names("a", "b"))
def test_a_dict_that_changes_after_its_iterator_was_made(table):
    before = iter(table)
    table["c"] = 5
    npc.graph_break()
    return list(before)  # RuntimeError: dictionary changed size during iteration


@check()
def test_a_dict_made_here_that_changes_after_its_iterator_was_made():
    table = {"a": 1}
    before = iter(table)
    table["b"] = 2
    npc.graph_break()
    return list(before)


@check(names("a"))
def test_a_dict_whose_keys_are_the_same_again(table):
    before = iter(table)
    next(before)
    table["a"] = table.pop("a")
    return list(before)  # RuntimeError: dictionary keys changed during iteration


@check(names("a", "b"), breaks=2)  # and at list(), none where the iterator is made
def test_other_values_under_the_same_keys_are_seen(table):
    before = iter(table.items())
    next(before)
    table["b"] = 7
    npc.graph_break()
    return list(before)


@check(lambda round: [1, 2, 3, 4])
def test_a_list_that_shrinks_under_its_iterator(items):
    after = iter(items)
    skipped = next(after), next(after), next(after)
    items.clear()
    npc.graph_break()
    items.extend(range(6))
    return skipped, list(after)


@check()
def test_a_list_made_here_that_shrinks_under_its_iterator():
    items = [1, 2, 3, 4]
    after = iter(items)
    skipped = next(after), next(after), next(after)
    items.clear()
    npc.graph_break()
    items.extend(range(6))
    return skipped, list(after)


@check(lambda round: [1])
def test_an_iterator_that_has_given_what_was_appended(items):
    after = iter(items)
    items.append(2)
    given = next(after), next(after)
    npc.graph_break()
    items.append(3)
    return given, list(after)


@check()
def test_a_set_and_a_deque_made_here():
    members, line = {1, 2}, collections.deque([1, 2])
    of_set, of_line = iter(members), iter(line)
    members.add(3)
    line.append(3)
    npc.graph_break()
    said = []
    for after in (of_set, of_line):
        try:
            next(after)
        except RuntimeError as error:
            said.append(str(error))
    return said


@check(lambda round: {1: 1}, breaks=0)
def test_a_loop_that_is_captured_whole_needs_no_break(table):
    table[2] = 2
    total = 0
    for key, value in table.items():
        total += key * value
    return total


@check(lambda round: [1, 2], breaks=0)
def test_iterators_from_the_start_of_a_list_need_no_break(items, x):
    items.append(3)
    return iter(items), x * 2


@check(breaks=0)
def test_zip_asks_again_after_its_end():
    first = iter([1, 2, 3])
    both = zip(first, [1])
    return list(both), list(both), list(first)


class Size(enum.Enum):
    SMALL, LARGE = range(2)


LETTERS = frozenset("a")
ITERATORS = {
    "of dicts": lambda x: (iter({1: x}.items()), reversed({1: x}), iter({1: x}.values())),
    "of containers": lambda x: (iter([x]), reversed([1]), iter((x,)), iter({1}), iter(collections.deque([x])), reversed(x)),
    "of constants": lambda x: (iter("ab"), iter(b"ab"), iter(LETTERS), iter(Size), iter(range(2)), reversed("ab")),
    "of arrays": lambda x: (iter(x), np.ndindex(2), iter(x[:1]), (row for row in x)),
    "of others": lambda x: (zip([x], [2]), map(abs, [x]), filter(None, [1]), enumerate([x]), zip(), iter([1].pop, 1)),
    "of one": lambda x: (chain([x]), chain.from_iterable([[x]]), islice([x, x], 1), accumulate([1, 2]), pairwise([1, 2])),
    "of several": lambda x: (product([1], [x]), permutations([1, 2]), combinations([x, x], 2), zip_longest([1], [x, x])),
    "of a function": lambda x: (starmap(max, [(1, 2)]), takewhile(bool, [1, 0]), dropwhile(bool, [0, 1]), filterfalse(None, [0])),
    "of groups": lambda x: (groupby([1, 1]), next(groupby([1, 1]))[1], compress([x, x], [1, 0]), repeat(x, 2), cycle([])),
}


@pytest.mark.parametrize("count", [0, 1, 9])
@pytest.mark.parametrize("name", ITERATORS)
def test_iterators_stay_of_their_type(name, count):
    """Given out before their first item, after it, and at their end."""
    make = ITERATORS[name]

    def given_out(x):
        made = make(x)
        for each in made:
            for _ in zip(range(count), each):
                pass
        return made, x + 1

    compiled = npc.compile(given_out)
    for _ in range(3):
        for ours, theirs in zip(compiled(np.arange(2.0))[0], given_out(np.arange(2.0))[0], strict=True):
            assert type(ours) is type(theirs)
            assert len([*ours]) == len([*theirs])
            assert next(ours, None) is None


@check(lambda round: Shelf())
def test_an_object_and_the_dict_of_its_attributes_are_one(shelf):
    shelf.owner = None
    held = vars(shelf)
    npc.graph_break()
    held["owner"] = "me"
    after = iter(held)
    shelf.place = "wall"
    npc.graph_break()
    return shelf.owner, held["place"], list(after)

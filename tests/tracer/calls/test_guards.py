"""What makes a compiled program usable again, and what makes it stale."""

import functools
import gc
import itertools
import linecache
import threading
import warnings
import weakref
from dataclasses import replace

import numpy as np
import pytest

import npcompile as npc
from npcompile.backends.array_guards import LIKENESS
from npcompile.compiler import compiled_function
from npcompile.tensor_core.guards import Layout, Ordered, Truth
from npcompile.tensor_core.source import Bound, Compared, Literal, Name, Source
from npcompile.tracer.guard_text import text_of
from npcompile.tracer.integer_guards import with_intervals, with_numbers
from npcompile.tracer.variant import Variant


def graphs_of(compiled) -> int:
    return len(compiled_function(compiled).graphs)


def checked(function, **options):
    """A compiled function whose every call is compared with the original."""
    compiled = npc.compile(function, backend="eager", **options)

    def call(*args):
        got, want = compiled(*args), function(*args)
        np.testing.assert_array_equal(got, want)
        assert type(got) is type(want)
        return got

    return compiled, call


def test_sizes_compile_twice_at_most():
    compiled, call = checked(lambda x: (x * 2 + x.sum())[1:-1])
    for n in (10, 20, 30, 1000, 7):
        call(np.arange(float(n)))
    assert graphs_of(compiled) == 2


def test_sizes_zero_and_one_are_special():
    compiled, call = checked(lambda x, y: x + y)
    for n in (10, 20, 1, 0, 30):
        call(np.arange(float(n)), np.arange(float(n)))
    call(np.arange(1.0), np.arange(5.0))
    assert graphs_of(compiled) <= 6


def test_two_sizes_that_were_equal():
    compiled, call = checked(lambda x, y: x[:, None] * y)
    for n, m in ((3, 3), (4, 4), (5, 6), (7, 8)):
        call(np.arange(float(n)), np.arange(float(m)))
    assert graphs_of(compiled) <= 3


def test_dynamic_true_is_symbolic_at_once():
    compiled, call = checked(lambda x: x.reshape(-1) * x.size, dynamic=True)
    for n in (3, 4, 5):
        call(np.ones((n, 2 * n)))
    assert graphs_of(compiled) == 1


def test_dynamic_false_never_is():
    compiled, call = checked(lambda x: x + 1, dynamic=False)
    for n in (3, 4, 5):
        call(np.ones(n))
    assert graphs_of(compiled) == 3


def test_python_numbers_are_inputs():
    compiled, call = checked(lambda x, n, h: (x.sum() / len(x), x * n, np.clip(x, 0, n), h * x + n / 2)[1] * h)
    for n, h in ((2, 0.5), (3, 1.5), (-7, -2.0), (100, 1e300)):
        call(np.arange(5.0), n, h)
    assert graphs_of(compiled) == 1


def test_kind_of_number_is_guarded():
    compiled, call = checked(lambda x, n: x * n)
    x = np.arange(3)
    for n in (2, 2.0, True, 2j, np.float32(2), np.int8(2)):
        call(x, n)
    call(x, 3)
    assert graphs_of(compiled) == 6


def test_dtype_layout_and_rank_are_guarded():
    _, call = checked(lambda x: x[::-1] * 2 + x.T)
    x = np.arange(9.0).reshape(3, 3)
    for a in (x, x.T, x[::-1], x.astype(np.float32), x.astype(">f8"), np.asfortranarray(x)):
        call(a)


SCALE = 2.0
OFFSETS = [1.0, 2.0]


def uses_globals(x):
    return x * SCALE + OFFSETS[0]


def test_globals_changed_after_capture():
    global SCALE
    _, call = checked(uses_globals)
    x = np.arange(3.0)
    call(x)
    SCALE = 5.0
    call(x)
    OFFSETS[0] = 9.0
    call(x)
    SCALE = np.arange(3.0)
    call(x)


def test_tuples_of_globals_are_inputs_once_they_change():
    namespace = {"np": np, "FACTORS": (0.5, 2.0)}
    exec("def f(x):\n    return x * FACTORS[0] + FACTORS[1]", namespace)
    compiled = npc.compile(namespace["f"])
    for k in range(6):
        namespace["FACTORS"] = (0.5 + k, 2.0)
        np.testing.assert_array_equal(compiled(np.ones(3)), np.full(3, 2.5 + k))
    assert len(compiled_function(compiled).graphs) == 2


def test_closure_changed_after_capture():
    k = np.float64(1.0)

    def f(x):
        return x * k

    compiled, call = checked(f)
    call(np.ones(2))
    k = np.float64(3.0)
    call(np.ones(2))
    k = "text"
    with pytest.raises(np._core._exceptions._UFuncNoLoopError) as theirs:
        f(np.ones(2))
    with pytest.raises(np._core._exceptions._UFuncNoLoopError) as ours:
        compiled(np.ones(2))
    assert str(ours.value) == str(theirs.value)


class Settings:
    rate = 0.5


def test_attributes_changed_after_capture():
    settings = Settings()
    compiled, call = checked(lambda x, s: x * s.rate)
    call(np.ones(2), settings)
    settings.rate = 2.0
    call(np.ones(2), settings)
    settings.rate = None
    with pytest.raises(TypeError):
        compiled(np.ones(2), settings)


def test_limit_warns_once_and_names_the_guard():
    compiled = npc.compile(lambda x, n: x * n if n > 3 else x + 1, backend="eager", dynamic=False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for n in range(1, 14):
            np.testing.assert_array_equal(compiled(np.zeros(n), 1), np.ones(n))
    messages = [str(w.message) for w in caught if issubclass(w.category, RuntimeWarning)]
    assert len(messages) == 1 and "x.shape == (8,), but x.shape is (9,)" in messages[0]
    assert graphs_of(compiled) == 8


def test_a_break_for_one_call_does_not_hide_what_is_compiled():
    compiled = npc.compile(lambda x: x + 1, backend="eager")
    for x in (np.ones(2), np.array([1, 2], object), np.ones(2)):
        np.testing.assert_array_equal(compiled(x), x + 1)
    known = compiled_function(compiled)
    start = next(p for p in known.points.values() if p.is_start)
    assert [v.graph is None for v in start.variants] == [False, True]


def test_nothing_unread_is_guarded():
    compiled = npc.compile(lambda x, unused, also=None: x + 1, backend="eager")
    for unused in (1, "text", None, [1, 2], np.ones(3), object()):
        compiled(np.ones(2), unused)
    assert graphs_of(compiled) == 1


def test_only_the_items_of_a_dict_that_were_read_are_guarded():
    compiled, call = checked(lambda x, d: x * d["k"] + d.get("n", 1) + ("w" in d))
    x = np.ones(3)
    for d in ({"k": 2.0}, {"z": None, "k": 3.0}, {(1, 2): 3, "k": 2.0, "x": x}, {"x": "other", "k": 0.5}):
        call(x, d)
    assert graphs_of(compiled) == 1
    call(x, {"k": 2.0, "w": 0})
    call(x, {"k": 2.0, "n": 5})
    assert graphs_of(compiled) == 3
    with pytest.raises(KeyError):
        compiled(x, {})
    both, call = checked(lambda x, d: x * d["k"] + len(d))
    call(x, {"k": 2.0})
    call(x, {"k": 2.0, "n": 3})
    assert graphs_of(both) == 2


def test_arrays_are_not_kept_alive():
    compiled = npc.compile(lambda x: x * 2, backend="eager")
    x = np.ones(1000)
    watched = weakref.ref(x)
    result = weakref.ref(compiled(x))
    del x
    gc.collect()
    assert watched() is None and result() is None


def test_compiled_functions_are_collected():
    compiled = npc.compile(lambda x: x * 2, backend="eager")
    compiled(np.ones(3))
    watched, lines = weakref.ref(compiled_function(compiled)), len(linecache.cache)
    del compiled
    gc.collect()
    assert watched() is None and len(linecache.cache) < lines


def test_one_compile_while_other_threads_wait():
    compiled = npc.compile(lambda x: np.sin(x).sum(), backend="eager")
    barrier = threading.Barrier(16)
    results = []

    def work(n):
        barrier.wait()
        results.append((n, compiled(np.arange(float(n)))))

    threads = [threading.Thread(target=work, args=(n,)) for n in [5] * 8 + [6] * 8]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(results) == 16
    for n, value in results:
        assert value == np.sin(np.arange(float(n))).sum()
    assert graphs_of(compiled) == 2


def test_reset_forgets_and_compiles_again():
    compiled, call = checked(lambda x: x + 1)
    call(np.ones(3))
    npc.reset()
    assert graphs_of(compiled) == 0
    call(np.ones(3))
    assert graphs_of(compiled) == 1


def test_run_only_compiles_nothing_new():
    compiled, call = checked(lambda x: x + 1)
    call(np.ones(3))
    npc.run_only(compiled)
    call(np.ones(3))
    call(np.ones(3, np.float32))
    assert graphs_of(compiled) == 1


def test_changing_trip_count_is_not_a_new_compile():
    def f(x, n):
        for i in range(n):
            x = x * 2 + i
        return x

    compiled, call = checked(f)
    for n in (3, 4, 5, 6, 7, 0, 100, 9, 12, 15):
        call(np.ones(3), n)
    assert graphs_of(compiled) <= 4


def test_numbers_made_text_are_not_fixed():
    def f(x, n, h):
        label = f"{n} {h:.2f} {round(h)} {n!r}"
        return x * n, label

    compiled = npc.compile(f, backend="eager")
    for k in range(12):
        got, want = compiled(np.ones(3), k, k / 3), f(np.ones(3), k, k / 3)
        assert got[1] == want[1] and (got[0] == want[0]).all()
    assert graphs_of(compiled) <= 2


def decayed(w, m, v, t):
    m *= 0.5
    w -= m / (1 - 0.9**t) + v / (1 - 0.999**t) + 1.01**t


def variants_of(compiled) -> list[Variant]:
    return next(iter(compiled_function(compiled).points.values())).variants


def conditions_of(compiled) -> list[str]:
    return [str(condition) for variant in variants_of(compiled) for condition in variant.conditions]


def test_names_arrays_and_numbers_are_asked_about_at_once_and_powers_bound_their_exponent():
    compiled = npc.compile(decayed)
    for _ in range(2):
        compiled(np.ones(5), np.ones(5), np.ones(5), 3)
    asked, *others = conditions_of(compiled)
    assert "are_like" in asked and others[0] == "((s0 := t) is not None)" and len(others) == 2  # the last one: do arrays overlap?
    found = map(text_of, with_numbers(variants_of(compiled)[0].guards))
    bounds = [c for c in found if "s0" in c and ":=" not in c]
    assert bounds == ["-6643 <= s0 <= 70349"]  # the one of 0.999 is implied


class Model:
    """Looked at by the programs below, and changed."""

    def scaled(self, x):
        return x * self.rate

    def __init__(self, rate):
        self.rate = rate


def modelled(model: Model, x, n: int, h: float):
    return model.scaled(x) * n + h


def changed_in(compiled, change, undo, *arguments) -> None:
    """The change is seen by the next call, and its undoing by the one after."""
    for do in (lambda: None, change, undo):
        do()
        want = outcome_of(modelled, *arguments)
        for _ in range(2):
            assert outcome_of(compiled, *arguments) == want


def outcome_of(function, *arguments):
    try:
        return repr(function(*arguments))
    except (AttributeError, TypeError) as error:
        return type(error)


@pytest.mark.parametrize("is_native", [True, False])
def test_each_change_of_a_class_is_seen(is_native, monkeypatch):
    if not is_native:
        monkeypatch.setattr(LIKENESS, "are_like", None)

    class Base(Model):
        pass

    class Derived(Base):
        pass

    class Other:
        def scaled(self, x):
            return x - 7

    model, x, scaled = Derived(0.5), np.ones(3), Model.scaled
    compiled = npc.compile(modelled, backend="cpu" if is_native else "eager")
    call = functools.partial(changed_in, compiled)
    given = model, x, 3, 2.5
    for _ in range(2):
        compiled(*given)
    assert any("are_like" in c for c in conditions_of(compiled)) is is_native
    call(lambda: setattr(Base, "scaled", lambda self, x: x + 1), lambda: delattr(Base, "scaled"), *given)
    call(lambda: setattr(Model, "scaled", lambda self, x: x + 2), lambda: setattr(Model, "scaled", scaled), *given)
    call(lambda: delattr(Model, "scaled"), lambda: setattr(Model, "scaled", scaled), *given)
    call(lambda: setattr(Derived, "scaled", 5), lambda: delattr(Derived, "scaled"), *given)
    call(lambda: setattr(Derived, "unrelated", 5), lambda: delattr(Derived, "unrelated"), *given)
    call(lambda: setattr(Derived, "__bases__", (Other, Base)), lambda: setattr(Derived, "__bases__", (Base,)), *given)
    call(
        lambda: setattr(Derived, "__getattribute__", lambda self, name: lambda x: x * 9),
        lambda: delattr(Derived, "__getattribute__"),
        *given,
    )
    call(
        lambda: setattr(Derived, "rate", property(lambda self: 8.0, lambda self, value: None)),
        lambda: delattr(Derived, "rate"),
        *given,
    )


def test_types_and_sizes_of_numbers_are_told_apart():
    compiled = npc.compile(modelled)
    model, x = Model(0.5), np.ones(3)
    numbers = [3, 3.0, True, np.int64(3), 2**31 - 1, -(2**31) + 1, -(2**31), 2**31, 2**40, 2**64, -(2**70), 3 + 1j, np.float32(3)]
    for n, h in itertools.chain.from_iterable(itertools.permutations(numbers, 2) for _ in range(2)):
        assert outcome_of(compiled, model, x, n, h) == outcome_of(modelled, model, x, n, h), (n, h)


@pytest.mark.parametrize("exponent", [0, 3, -6643, -6644, -7000, 70349, 70350, 10**6, -(10**6), 2**40])
def test_powers_at_the_bounds_of_their_exponents(exponent):
    compiled = npc.compile(decayed)
    compiled(np.ones(5), np.ones(5), np.ones(5), 3)
    with np.errstate(all="ignore"):
        outcomes = []
        for function in (compiled, decayed):
            w, m = np.ones(5), np.ones(5)
            try:
                function(w, m, np.ones(5), exponent)
            except (OverflowError, ZeroDivisionError) as error:
                outcomes.append((type(error), str(error), w.tobytes(), m.tobytes()))
            else:
                outcomes.append((w.tobytes(), m.tobytes()))
    assert outcomes[0] == outcomes[1]


def steps(x, n):
    for _ in range(n):
        x = x * 0.5 + 1
    return x


def by_size(x, n):
    if n > 3 and x.size < 40:
        return x[:n] * 2
    if not n >= -2 or -4 < n < 0:
        return x + n
    return x[: len(x) // 2] if 7 != n else x[n:]


@pytest.mark.parametrize("function", [steps, by_size])
def test_integers_on_either_side_of_each_bound(function):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # there are more than the limit
        compiled = npc.compile(function)
        for _ in range(2):
            for n in [*range(6, -8, -1), *range(7, 50, 3), 2**31 - 1, 2**31, -(2**31), True]:
                n = min(n, 45) if function is steps else n
                for size in (2, 39, 40, 41):
                    x = np.arange(float(size))
                    np.testing.assert_array_equal(compiled(x, n), function(x, n))


def test_an_integer_is_compared_once():
    compiled = npc.compile(steps)
    compiled(np.ones(3), 4)
    (variant,) = compiled_function(compiled).points[next(iter(compiled_function(compiled).points))].variants
    texts = [*map(str, variant.conditions)]
    assert sum("s0" in text for text in texts) == 2, texts  # its type, and its value
    assert "s0 == 4" in texts


def number(value: str | int) -> Source:
    return Bound(value) if isinstance(value, str) else Literal(value)


def ordered(*parts: str | int) -> Ordered:
    return Ordered(tuple(map(number, parts[::2])), parts[1::2])


def answered(left: str | int, symbol: str, right: str | int, answer: bool = True) -> Truth:
    """A comparison of the user's."""
    return Truth(Compared(number(left), symbol, number(right)), answer)


@pytest.mark.parametrize(
    ("guards", "asked"),
    [
        ([ordered(0, "<", "s0"), ordered(1, "<", "s0"), ordered(2, ">=", "s0")], ["s0 == 2"]),
        (
            [
                ordered(-9, "<=", "s0", "<=", 9),
                Layout(Name("x"), "ndim", 1),
                answered("s0", ">", 3, False),
                ordered("s1", ">=", 2),
            ],
            ["-9 <= s0 <= 3", "x.ndim == 1", "2 <= s1"],
        ),
        (
            [answered("s0", ">", -3), answered("s0", ">", "s1"), ordered("s0", ">=", -5), ordered("s0", "!=", 4)],
            ["-2 <= s0", "(s0 > s1)", "s0 != 4"],
        ),
        (
            [answered("s0", ">=", 3, False), replace(ordered(1, "<", "s0", "<=", 3), answer=False)],
            ["s0 <= 2", "not (1 < s0 <= 3)"],
        ),
        ([ordered("s2", "<", 3), ordered("s2", "<", 2)], ["s2 < 3", "s2 < 2"]),  # which may be no integer
    ],
)
def test_what_guards_say_of_an_integer_together(guards, asked):
    assert [*map(text_of, with_intervals(guards, {"s0", "s1"}))] == asked


def test_asking_an_argument_spends_no_iterator():
    """A program for one set, from a call before, is not for an iterator: that has still all its items."""

    def doubled(items):
        return [2 * item for item in items] if items else []

    compiled = npc.compile(doubled)
    for make in (
        lambda: {1, 2, 3},
        lambda: frozenset("ab"),
        lambda: iter([1, 2, 3]),
        lambda: (k for k in range(4)),
        lambda: {3, 4},
    ):
        for _ in range(2):
            assert compiled(make()) == doubled(make())

"""Exceptions that a program raises and handles itself are part of its graph; those that it keeps are raised natively.

PYTEST_DONT_REWRITE: the programs have `assert` as Python compiles it.
"""

# The shapes are the point: what a linter would write shorter stays.
# ruff: noqa: B012

import sys

import numpy as np

import npcompile as npc
from tests.tracer.harness import check


class Refused(Exception):
    pass


class Worse(Refused):
    pass


class Explained(Exception):
    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


class Worded(Exception):
    def __str__(self):
        return "worded"


def refuse_matrices(x, kind=Refused):
    if x.ndim == 2:
        raise kind("a matrix")
    return x


def through(x):
    y = np.sin(x)
    return refuse_matrices(y) + 1


def closing(x, done):
    try:
        return refuse_matrices(x)
    finally:
        done.append("closed")


def handling(x):
    try:
        return refuse_matrices(x)
    except ValueError:
        return x


def narrowing(x):
    try:
        return refuse_matrices(x)
    except Refused as error:
        raise ValueError("narrower") from error


@check(graphs=1, breaks=0)
def test_raised_and_caught(x):
    try:
        y = np.cos(x)
        raise Refused("here")
    except Refused:
        y = np.sin(x)
    return y + 1


@check(graphs=1, breaks=0)
def test_raised_as_a_class(x):
    try:
        raise Refused
    except (TypeError, Refused):
        x = x + 1
    else:
        x = x * 100
    return x


@check(graphs=1, breaks=0)
def test_raised_by_a_callee(x):
    try:
        y = refuse_matrices(x)
    except Refused:
        y = np.sin(x)
    return y * 2


@check(graphs=1, breaks=0)
def test_raised_by_the_callee_of_a_callee(x):
    try:
        y = through(x)
    except Exception:
        y = np.exp(-x)
    return y * 2


@check(graphs=1, breaks=0)
def test_subclass_is_caught(x):
    try:
        refuse_matrices(x, Worse)
    except ValueError:
        return x
    except Refused:
        return x * 2
    except Worse:
        return x * 3


@check(graphs=1, breaks=0)
def test_finally_runs_on_the_way(x):
    done = []
    try:
        y = closing(x, done)
    except Refused:
        done.append("caught")
        y = x
    return y - 1, done


@check(graphs=1, breaks=0)
def test_handler_of_the_callee_is_another(x):
    try:
        y = handling(x)
    except Refused:
        y = x - 1
    return y


@check(graphs=1, breaks=0)
def test_raised_again(x):
    steps = []
    try:
        try:
            refuse_matrices(x)
        except Refused:
            steps.append("inner")
            raise
        finally:
            steps.append("finally")
    except Refused:
        steps.append("outer")
    return x + len(steps), steps


@check(graphs=1, breaks=0)
def test_replaced(x):
    try:
        narrowing(x)
    except ValueError:
        return x + 1


@check(graphs=1, breaks=0)
def test_name_of_the_exception(x):
    try:
        refuse_matrices(x)
    except Refused as error:
        text = str(error)
        arguments = error.args
    return x + 1, text, arguments


@check(graphs=1, breaks=0)
def test_the_same_raised_again_by_name(x):
    try:
        try:
            raise Refused(1)
        except Refused as error:
            raise error
    except Refused as error:
        return x + error.args[0]


@check(graphs=1, breaks=0)
def test_key_that_is_not_there(x):
    options = {"scale": 2.0}
    try:
        shift = options["shift"]
    except KeyError:
        shift = 0.5
    return x * options["scale"] + shift


@check({"scale": 2.0}, graphs=1, breaks=0)
def test_key_that_is_not_in_an_argument(options, x):
    try:
        shift = options["shift"]
    except KeyError as error:
        shift = len(str(error))
    return x + shift


@check(graphs=1, breaks=0)
def test_index_that_is_not_there(x):
    found = [x, x + 1]
    try:
        found[2] = found[7]
    except IndexError as error:
        found.append(len(str(error)) + x)
    return found


@check(graphs=1, breaks=0)
def test_attribute_that_is_not_there(x):
    try:
        return x.to_numpy()
    except AttributeError:
        return np.asarray(x) * 2


@check(graphs=1, breaks=0)
def test_iterator_at_its_end(x):
    rows = iter([x, x + 1, x + 2])
    total = 0
    while True:
        try:
            total = total + next(rows)
        except StopIteration:
            break
    return total


@check(graphs=1, breaks=0)
def test_division_of_constants(x):
    try:
        scale = len(x.shape) / (x.ndim - 2)
    except ZeroDivisionError:
        scale = 1.0
    return x * scale


@check(graphs=1, breaks=0)
def test_conversion_that_fails(x):
    try:
        n = int("three")
    except ValueError as error:
        n = len(str(error))
    return x * n


@check(graphs=1, breaks=0)
def test_assertion(x):
    try:
        assert x.ndim == 1, "a vector is needed"
    except AssertionError as error:
        x = x[:, 0] + len(str(error))
    return x


@check(graphs=1, breaks=0)
def test_in_every_round_of_a_loop(x):
    total = np.zeros_like(x)
    for scale in (1, 0, 2):
        try:
            total = total + x / (6 // scale)
        except ZeroDivisionError:
            total = total - 1
            continue
        finally:
            total = total * 2
    return total


@check(graphs=1, breaks=0)
def test_leaves_a_loop(x):
    try:
        for k in range(10):
            x = x + 1
            if k == 3:
                raise Refused(k)
    except Refused as error:
        return x * error.args[0]


@check(graphs=1, breaks=0)
def test_comes_through_errstate(x):
    try:
        with np.errstate(divide="ignore"):
            y = np.log(x - x)
            refuse_matrices(y)
    except Refused:
        y = np.log(x)
    return y


@check(graphs=1, breaks=0)
def test_return_in_finally(x):
    try:
        refuse_matrices(x)
    finally:
        return x + 1


@check(graphs=1, breaks=0)
def test_write_before_it(x):
    try:
        x[0] = 7
        refuse_matrices(x)
        x[1] = 8
    except Refused:
        x[2] = x[0] * 2


@check(graphs=1, breaks=0)
def test_handler_in_a_handler(x):
    try:
        refuse_matrices(x)
    except Refused:
        try:
            {}["absent"]
        except KeyError:
            x = x + 1
        x = x * 2
    return x


@check(graphs=1, breaks=0)
def test_exception_that_is_made_and_returned(x):
    return str(Refused("only made")), x + 1


@check(graphs=1)
def test_exception_that_is_kept(x):
    """It has a traceback, a context and a cause."""
    y = np.sin(x)
    try:
        narrowing(y)
    except ValueError as caught:
        error = caught
    return y, type(error.__cause__).__name__, error.__traceback__ is not None, error.__context__ is error.__cause__


@check()
def test_exception_that_is_kept_in_a_list(x):
    errors = []
    y = np.sin(x)
    try:
        refuse_matrices(y)
    except Refused as caught:
        errors.append(caught)
    return y + 1, errors[0].__traceback__ is not None, [*errors[0].args]


@check()
def test_break_in_a_handler(x):
    y = np.sin(x)
    try:
        refuse_matrices(y)
    except Refused as error:
        y = y + len(repr(error.__traceback__ is not None))
    return y * 2


@check()
def test_break_in_a_callee_of_a_handler(x):
    y = np.sin(x)
    try:
        refuse_matrices(y)
    except Refused:
        y = y + len(ascii(str(y.sum() > 0)))
    return y * 2


@check()
def test_data_decides_in_a_handler(x):
    y = np.sin(x)
    try:
        refuse_matrices(y)
    except Refused:
        if y.sum() > 0:
            y = y * 3
    return y * 2


@check()
def test_long_loop_in_a_handler(x):
    try:
        refuse_matrices(x)
    except Refused:
        for k in range(50):
            x = x * 0.5 + k
    return x


@check()
def test_nobody_catches_it(x):
    y = x + 1
    try:
        refuse_matrices(y)
    except ValueError:
        y = x
    return y


@check()
def test_nobody_catches_it_after_finally(x):
    try:
        x += 1
        refuse_matrices(x)
    finally:
        x[0] = -1


@check()
def test_constructor_of_its_own(x):
    try:
        raise Explained(3, "text")
    except Explained as error:
        return x + error.code


@check()
def test_text_of_its_own(x):
    try:
        raise Worded("other")
    except Worded as error:
        return x + len(str(error))


@check()
def test_raised_in_the_middle_of_a_builtin(x):
    """What list.extend took before the exception stays."""
    found = []

    def half(k):
        if k == 2:
            raise Refused(k)
        return x * k

    try:
        found.extend(map(half, range(4)))
    except Refused:
        found.append("caught")
    return found


@check()
def test_key_function_that_raises(x):
    def key(k):
        raise Refused(k)

    try:
        return sorted([2, 1], key=key), x
    except Refused:
        return x + 1


@check()
def test_group(x):
    y = np.sin(x)
    try:
        raise ExceptionGroup("several", [ValueError(1), TypeError(2)])
    except* ValueError as group:
        y = y + len(group.exceptions)
    except* TypeError:
        y = y * 2
    return y


@check()
def test_system_errors(x):
    try:
        raise OSError(2, "no such file")
    except FileNotFoundError as error:
        return x + error.errno


@check()
def test_context_of_the_next(x):
    try:
        try:
            refuse_matrices(x)
        except Refused:
            {}["absent"]
    except KeyError as error:
        kept = error
    return type(kept.__context__).__name__, x + 1


def current_exception(x):
    return x + 1, sys.exception() is None, sys.exc_info()[0]


def test_exception_that_the_caller_handles():
    compiled = npc.compile(current_exception, backend="eager")
    x = np.ones(2)
    for _ in range(2):
        assert compiled(x)[1:] == (True, None)
        try:
            raise Refused
        except Refused:
            assert compiled(x)[1:] == (False, Refused)


@check(graphs=1)
def test_operands_of_augmented_assignments(x):
    found = []
    shape, name = x.shape, "name"
    try:
        shape -= (1, 2)
    except TypeError as error:
        found.append(str(error))
    try:
        name **= 2
    except TypeError as error:
        found.append(str(error))
    try:
        name += 2
    except TypeError as error:
        found.append(str(error))
    return x * 2, found


@check([1, 2], -3, {"a": 1}, graphs=1, breaks=0)
def test_default_of_a_missing_attribute_is_no_exception(items, number, table, x):
    try:
        found = [getattr(each, "shape", 2) for each in (items, number, table, "text", None, (x, 1), x)]
    except AttributeError:
        found = None
    return found, x + 1

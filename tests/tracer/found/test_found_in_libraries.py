"""What programs of others showed: functions of colour-science, compiled one by one."""

import functools

from tests.tracer.harness import check

MODE = "none"


@functools.cache
def validated(name: str, names: tuple[str, ...]) -> str:
    if name.lower() not in [n.lower() for n in names]:
        raise ValueError(f"{name} is none of {names}")
    return name.lower()


@functools.cache
def mode_is(name: str) -> bool:
    return name == MODE


def set_mode(name):
    global MODE
    MODE = name


@check(graphs=1, breaks=0)
def test_a_cache_that_sees_its_arguments_alone_after_a_change(x):
    set_mode("changed")
    try:
        return x * len(validated("Sum", ("sum", "mean")))
    finally:
        set_mode("none")


@check(breaks=1)
def test_a_cache_that_may_see_the_change_runs_natively(x):
    set_mode("changed")
    try:
        return x * 2 if mode_is("changed") else x
    finally:
        set_mode("none")

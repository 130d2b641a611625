"""One step of the five-point stencil, written with slices."""

import numpy as np

from benchmarks.case import Case, Function, Inputs


def stencil(u):
    v = u.copy()
    v[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
    return v


def inputs(rng: np.random.Generator) -> Inputs:
    return (rng.standard_normal((2000, 2000)),)


def numexpr_version() -> Function:
    import numexpr

    def mixed(u):
        v = u.copy()
        neighbours = {"a": u[:-2, 1:-1], "b": u[2:, 1:-1], "c": u[1:-1, :-2], "d": u[1:-1, 2:]}
        numexpr.evaluate("0.25 * (a + b + c + d)", local_dict=neighbours, out=v[1:-1, 1:-1])
        return v

    return mixed


def jax_version() -> Function:
    return lambda u: u.at[1:-1, 1:-1].set(0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]))


CASE = Case(
    "stencil",
    "five-point stencil, 2000x2000",
    stencil,
    inputs,
    rewrites={"numexpr": numexpr_version, "jax": jax_version},
)

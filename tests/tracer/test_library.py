"""What the Python code of SciPy and the standard library asks of its own functions and dicts, answered while capturing."""

import sys
import types

import numpy as np
import scipy.spatial.distance as distance
from scipy._lib._array_api import array_namespace, xp_result_type

import npcompile as npc
from npcompile.compiler import compiled_function
from tests.tracer.harness import check


@check(graphs=1, breaks=0)
def test_function_that_remembers(x):
    """is_numpy is under functools.lru_cache."""
    xp = array_namespace(x)
    return xp.sum(x).astype(xp_result_type(x, force_floating=True, xp=xp))


def test_key_that_appears_in_the_dict_of_a_module():
    def looked_up(x):
        return x + 1 if distance.sys_modules().get("npcompile_test_module") is None else x - 1

    def sys_modules():
        return sys.modules

    distance.sys_modules = types.FunctionType(sys_modules.__code__, {"sys": sys, "__name__": "scipy.spatial.distance"})
    compiled = npc.compile(looked_up, backend="eager")
    x = np.arange(3.0)
    try:
        np.testing.assert_array_equal(compiled(x), x + 1)
        sys.modules["npcompile_test_module"] = types.ModuleType("npcompile_test_module")
        np.testing.assert_array_equal(compiled(x), x - 1)
    finally:
        sys.modules.pop("npcompile_test_module", None)
        del distance.sys_modules
    assert not compiled_function(compiled).breaks

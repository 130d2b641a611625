"""Everything that is captured.

Each of these modules, as it is imported, defines what some operators, attributes or calls are: `captures` of a function,
`defined` of what modules below call. Of instructions there is a table, one for symbolic frames and one for native programs.
"""

from npcompile.tracer.arrays import control, random_methods, tensors, transformed
from npcompile.tracer.instructions import table
from npcompile.tracer.native import instructions as native_instructions
from npcompile.tracer.python import (
    array_function,
    class_operators,
    container_operators,
    copying,
    deques,
    introspection,
    iterators,
    library,
    numbers,
    objects,
    python_builtins,
    python_numbers,
    texts,
)
from npcompile.tracer.python import containers as python_containers
from npcompile.tracer.python import functions as python_functions

__all__ = [
    "array_function",
    "class_operators",
    "container_operators",
    "control",
    "copying",
    "deques",
    "introspection",
    "iterators",
    "library",
    "native_instructions",
    "numbers",
    "objects",
    "python_builtins",
    "python_containers",
    "python_functions",
    "python_numbers",
    "random_methods",
    "table",
    "tensors",
    "texts",
    "transformed",
]

"""Everything that is captured.

Each of these modules, as it is imported, defines what some instructions, operators, attributes or calls are: `handles` of an
instruction, `captures` of a function, `defined` of what modules below call.
"""

from npcompile.tracer.arrays import control, random_methods, tensors, transformed
from npcompile.tracer.instructions import blocks, classes, containers, functions, jumps, operations, variables
from npcompile.tracer.native import instructions as native_instructions
from npcompile.tracer.python import (
    array_function,
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
    "blocks",
    "classes",
    "containers",
    "control",
    "copying",
    "deques",
    "functions",
    "introspection",
    "iterators",
    "jumps",
    "library",
    "native_instructions",
    "numbers",
    "objects",
    "operations",
    "python_builtins",
    "python_containers",
    "python_functions",
    "python_numbers",
    "random_methods",
    "tensors",
    "texts",
    "transformed",
    "variables",
]

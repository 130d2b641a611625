"""What modules below call and modules above define: declared here with its type, defined once by `@NAME.defined`.

An operator asks containers, numbers of array data and classes written in Python in turn; NotImplemented says that no operand is
theirs. tests/tracer/tensors/test_forward.py checks that each declaration here has its definition.
"""

from __future__ import annotations

from typing import Any, Final

from npcompile.tensor_core.array import Array
from npcompile.tracer.capture import Capture
from npcompile.tracer.forward import Forward
from npcompile.tracer.frame import Frame
from npcompile.tracer.values import Partial, TensorMethod, TensorValue, Text

Value = Any  # a traced value
Items = list[Any]
Keywords = dict[str, Any]


Unary = Forward[[Capture, Value], Value]
Binary = Forward[[Capture, Value, Value], Value]
WithSymbol = Forward[[Capture, str, Value], Value]
BinaryWithSymbol = Forward[[Capture, str, Value, Value], Value]
Assignment = Forward[[Capture, Value, Value, Value], Value]

# Classes written in Python: class_operators.py, objects.py
class_binary: Final[BinaryWithSymbol] = Forward()
class_inplace: Final[BinaryWithSymbol] = Forward()
class_unary: Final[WithSymbol] = Forward()
class_compare: Final[BinaryWithSymbol] = Forward()
class_truth: Final[Unary] = Forward()
class_length: Final[Unary] = Forward()
class_contains: Final[Binary] = Forward()
class_iter: Final[Unary] = Forward()
class_getitem: Final[Binary] = Forward()
class_setitem: Final[Assignment] = Forward()
class_delitem: Final[Binary] = Forward()
is_made_plainly: Final[Forward[[Any], bool]] = Forward()
make: Final[Forward[[Frame, type, Items, Keywords], Value]] = Forward()

# Containers: containers.py, container_operators.py
container_binary: Final[BinaryWithSymbol] = Forward()
container_inplace: Final[BinaryWithSymbol] = Forward()
container_compare: Final[BinaryWithSymbol] = Forward()
container_setitem: Final[Assignment] = Forward()
container_delitem: Final[Binary] = Forward()
container_method: Final[Forward[[Frame, Value, str, Items, Keywords], Value]] = Forward()
taken: Final[Unary] = Forward()

# Python's numbers made of array data: python_numbers.py
number_binary: Final[BinaryWithSymbol] = Forward()
number_unary: Final[WithSymbol] = Forward()
number_compare: Final[BinaryWithSymbol] = Forward()
number_truth: Final[Unary] = Forward()
number_lowered: Final[Unary] = Forward()
to_python: Final[Forward[[str, Capture, Array, Items], Value]] = Forward()  # x.item, x.tolist, x.tobytes

# Calls: functions.py, array_function.py, texts.py
call_function: Final[Forward[[Capture, Value, Items], Value]] = Forward()
call_partial: Final[Forward[[Frame, Partial, Items, Keywords], Value]] = Forward()
require_no_override: Final[Forward[[Capture, Any, Items], None]] = Forward()
text_compared: Final[Forward[[Capture, str, Value, Value], Value]] = Forward()
text_found: Final[Forward[[Capture, Value, Value], Value]] = Forward()
lifted: Final[Forward[[Value], Value]] = Forward()
filled_in: Final[Forward[[Capture, str, Value], Text | None]] = Forward()

# Tensors: tracer/arrays/tensors.py
tensor_method: Final[Forward[[Frame, TensorMethod, Items, Keywords], Value]] = Forward()
tensor_attribute: Final[Forward[[Frame, TensorValue, str], Value]] = Forward()
store_tensor_attribute: Final[Forward[[Frame, TensorValue, str, Value], None]] = Forward()

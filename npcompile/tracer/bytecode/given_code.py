"""When a function is given other code: profilers of lines do that to what they are asked about, and count that code alone."""

from __future__ import annotations

import types

from npcompile.tracer.bytecode.assembler import NOP


def is_profiled(function: types.FunctionType, before: types.CodeType) -> bool:
    """Was it given other code than it had before, or had it such then? Its end tells: no compiler writes a NOP there."""
    code = function.__code__
    return (code is not before and code != before) or code.co_code[-2] == NOP

"""The rules of the loop IR, and the error of a program that breaks one."""

from __future__ import annotations

from enum import Enum


class Rule(Enum):
    DEFINED_ONCE = "a value has one definition"
    VISIBLE = "an op reads values that are defined before it, in its region or around it, or in a dominating block"
    KNOWN_STATE = "a Check names a frame state that is made before it"
    STAGE = "blocks hold no structured ops but loops, and regions no jumps"
    ENDS = "a region or block ends with one terminator"
    TARGET = "what leaves a region or block goes to one that there is"
    ARGUMENTS = "values that are given have the types of those that take them"
    TYPES = "an op's result has the type that follows from its operands"
    INDEX = "an element has an index for each axis, and a view a start"
    WRITEABLE = "only writeable arrays are stored to"
    CONDITION = "a condition is a truth value"
    EFFECT = "nothing that Python must not do twice is between a frame state and a Check that names it"
    FLAGS = "floating-point flags are looked at before an effect, a frame state and the end"
    PARALLEL = "a parallel loop hands nothing on, and only computes and stores"
    UNDO = "what is done before flags are looked at is only computing, and stores that are put back"


class Invalid(ValueError):
    """A program breaks a rule."""

    def __init__(self, rule: Rule, text: str):
        super().__init__(f"{rule.value}: {text}")
        self.rule = rule

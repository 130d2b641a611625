"""From bytecode to loop IR: Python's meaning, inputs, and the states in which Python goes on. docs/loop-ir.md describes it."""

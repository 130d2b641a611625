"""From bytecode to loop IR: Python's meaning, inputs, and where Python goes on. docs/architecture/loop-ir.md describes it."""

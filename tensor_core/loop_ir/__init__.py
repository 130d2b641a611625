"""The loop IR: typed programs with loops, arrays as values, and side exits. docs/architecture/loop-ir.md describes it."""

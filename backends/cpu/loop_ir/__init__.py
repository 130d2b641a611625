"""Loop IR on the CPU: the C target, its runtime, and calls of what was compiled."""

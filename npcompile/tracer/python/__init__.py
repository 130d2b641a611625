"""What Python's operators, attributes, calls and built-in types mean for values that are captured."""

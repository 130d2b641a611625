"""Loops over single elements: the user's bytecode, its types known, as one native program.

`kinds` says what values are, `meanings` what operators and functions do to them, `blocks` follows the program with
`instructions` for each of them, and `loops` makes the variant that runs the native program and goes on in Python where it leaves.
"""

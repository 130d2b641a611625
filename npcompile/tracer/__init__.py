"""Bytecode of a user function to graphs, guards and segments."""

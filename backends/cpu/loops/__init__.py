"""The C of native loops: numbers in registers, statements over arrays, chunks on threads, strips that are checked afterwards."""

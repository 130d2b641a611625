"""Every captured form called with every keyword that its NumPy function takes: drawn calls, compared with NumPy's.

`calls.py` draws a call from an entry's signature, `parameters.py` has what each parameter may be, `outcomes.py` compares.
`python -m tests.shim.keywords 500` draws many for each entry.
"""

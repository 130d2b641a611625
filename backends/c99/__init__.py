"""C99 that needs neither Python nor NumPy: exported programs as a library of C, and as a wheel."""

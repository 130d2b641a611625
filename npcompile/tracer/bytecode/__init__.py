"""Code of the user's functions: read, and assembled to be entered and left at any instruction."""

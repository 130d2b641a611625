"""What each CPython instruction does to a symbolic frame. Versions differ by rows: one handler serves all its names."""

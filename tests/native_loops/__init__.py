"""Loops over single elements, which run as native programs."""

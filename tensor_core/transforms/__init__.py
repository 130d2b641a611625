"""Graphs made from graphs: reverse and forward derivatives, batches, and the cut between forward and backward."""

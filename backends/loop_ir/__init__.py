"""Loop IR as text of C's family: one statement printer, and a table for each target."""

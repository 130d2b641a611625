"""Mistakes of npcompile itself fail tests: users get a warning and a native run."""

import npcompile as npc

npc.config.internal_errors = "raise"

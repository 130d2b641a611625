"""Programs that leave Python: exported, saved, as C, as wheels."""

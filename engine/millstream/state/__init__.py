"""State tables, their changelog, checkpoint and restore."""

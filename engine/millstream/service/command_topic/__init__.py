"""Statements that change the catalog: written down, replayed, followed by every instance."""

"""Statements that are refused, by the room whose template words the refusal."""

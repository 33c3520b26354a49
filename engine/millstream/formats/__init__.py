"""Bytes of a record to typed columns and back."""

"""Conversion between the bytes of records and typed columns."""

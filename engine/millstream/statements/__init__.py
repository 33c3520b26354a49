"""Executes statements: one module per kind of statement."""

"""Runs programs in DuckDB behind the runtime's Kernel port."""

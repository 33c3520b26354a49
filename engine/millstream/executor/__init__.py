"""Runs programs in DuckDB behind the runtime's Executor port."""

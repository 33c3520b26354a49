"""The output: tables, live queries, progress bars, errors."""

"""What is shown: tables, live queries, bars, errors."""

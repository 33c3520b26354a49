"""Push queries and PRINT: rows that a client gets as they arrive."""

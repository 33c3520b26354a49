"""`millstream test`: files of SQL with the expected rows below each query."""

"""`millstream test`: files of SQL with the expected rows behind each query."""

"""`millstream migrations`: changes of streams, tables and queries as numbered files."""

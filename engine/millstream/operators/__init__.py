"""One file per operator: a logical node becomes DuckDB statements over batches and state."""

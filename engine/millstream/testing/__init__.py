"""Tools for testing queries, for users too: drawn batches and a simulated log."""

"""What users and we need to test queries: drawn batches and a simulated log."""

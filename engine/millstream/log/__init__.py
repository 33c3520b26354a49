"""The log: topics, partitions, records, transactions."""

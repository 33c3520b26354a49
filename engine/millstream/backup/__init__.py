"""Backups of databases in a file, and topics as Parquet files."""

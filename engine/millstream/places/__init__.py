"""Folders and object stores that URLs name."""

"""Connections and their protocols."""

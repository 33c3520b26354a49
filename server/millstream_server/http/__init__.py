"""Connections, and the protocols that are spoken on them."""

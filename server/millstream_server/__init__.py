"""The HTTP server; its rooms are still empty."""

"""Where statements go: an engine in this process, or a server."""

"""Sessions that execute statements: an engine in this process, or a server."""

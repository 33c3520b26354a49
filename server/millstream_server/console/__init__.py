"""The console: the page at `/` and its files. Their sources are in `server/console`."""

"""The `millstream` command: scripts, one-liners and an interactive shell."""

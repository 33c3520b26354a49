"""From files, environment and flags to a server that runs."""

"""Starts a server from files, environment and flags."""

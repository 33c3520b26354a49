"""Persistent queries carried by jobs: `millstream pipeline run`."""

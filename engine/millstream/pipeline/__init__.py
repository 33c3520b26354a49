"""Processes persistent queries in epochs by batch jobs: `millstream pipeline run`."""

"""Topologies of processors that run on a database, as persistent queries."""

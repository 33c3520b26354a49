"""Logical plans cut into sub-topologies that are joined by repartition topics."""

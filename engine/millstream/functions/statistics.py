"""Aggregates that summarise: variance, correlation, frequencies, largest values."""

from __future__ import annotations

from millstream.functions.function import AggregateFunction

STATISTICS: tuple[AggregateFunction, ...] = ()
"""The aggregates of this file."""

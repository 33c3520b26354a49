"""The scalar functions, one table per category."""

from __future__ import annotations

from millstream.functions.function import ScalarFunction

SCALAR: tuple[ScalarFunction, ...] = ()
"""Every scalar function."""

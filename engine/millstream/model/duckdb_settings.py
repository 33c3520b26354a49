"""The settings of each DuckDB instance."""

from __future__ import annotations

from collections.abc import Mapping

SECURE: Mapping[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "allow_unsigned_extensions": False,
    "allow_persistent_secrets": False,
    "python_enable_replacements": False,
    # DuckDB starts these for remote files, which are not read here.
    "async_threads": 0,
}
"""For an instance that runs the expressions of untrusted clients."""

OPTIMIZER = "enable_optimizer"
"""The one setting that the engine changes for a connection while it runs."""
LOCK = f"SET allowed_configs = ['{OPTIMIZER}']; SET lock_configuration = true"
"""Refuses changes of settings from here on, but for `OPTIMIZER`."""

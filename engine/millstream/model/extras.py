"""How the parts of the package that need more libraries are installed."""

from __future__ import annotations


def install(extra: str) -> str:
    """The command for an extra. The package is on no index yet, where its name could be anybody's
    by now."""
    return f"pip install '.[{extra}]' in a clone of Millstream"

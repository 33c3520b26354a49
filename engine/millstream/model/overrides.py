"""Which properties the clients of a server may set."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from millstream.model import refusals
from millstream.model.settings import canonical_name, known_property


@dataclass(frozen=True, slots=True)
class Overrides:
    """All properties except those `denied`; if some are `allowed`, only these."""

    denied: frozenset[str] = frozenset()
    allowed: frozenset[str] | None = None

    def check(self, name: str) -> str:
        """The canonical name of a property; raises StatementError where it is unknown or
        prohibited."""
        canonical = known_property(name).name
        if canonical in self.denied or (self.allowed is not None and canonical not in self.allowed):
            raise refusals.SETTING_PROHIBITED(name=name)
        return canonical


def canonical_names(names: Iterable[str]) -> frozenset[str]:
    """Canonical names of properties; a prefix `ksql.streams.` is ignored."""
    return frozenset(map(canonical_name, names))

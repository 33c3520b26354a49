"""The session of a client: its properties (SET) and variables (DEFINE)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from millstream.model.overrides import Overrides
from millstream.model.settings import check_property, effective

if TYPE_CHECKING:
    from millstream.history.watch import Watch


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of one pull query: rows, bytes and duration; None for no limit. The server sets
    them; a client cannot SET them."""

    rows: int | None = None
    bytes: int | None = None
    milliseconds: int | None = None


@dataclass(slots=True)
class Session:
    """One client's property overrides and variables. `local`: it may read local files."""

    properties: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    local: bool = True
    bounds: Bounds = field(default_factory=Bounds)
    overrides: Overrides = field(default_factory=Overrides)
    inserted: bool = False
    """Whether records were inserted since the last pull query."""
    asserted: dict[tuple[str, int], int] = field(default_factory=dict)
    """The offset up to which ASSERT VALUES has matched a topic and partition."""
    on_copy_progress: Callable[[str, int], None] | None = None
    """Called while COPY runs, with the file and the number of its rows that are written."""
    on_backfill: Callable[[Watch], None] | None = None
    """Called when a back-fill begins, with the `Watch` that has its progress and can cancel it."""

    def property(self, name: str) -> str:
        """The effective value of a property."""
        return effective(self.properties, name)

    def flag(self, name: str) -> bool:
        """The effective value of a boolean property."""
        return self.property(name) == "true"

    def set(self, name: str, value: str) -> tuple[str, str]:
        """Override a property; returns its canonical name and value. Raises StatementError if it is
        unknown or prohibited."""
        self.overrides.check(name)
        canonical, checked = check_property(name, value)
        self.properties[canonical] = checked
        return canonical, checked

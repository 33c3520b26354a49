"""What SET and DEFINE leave behind for later statements of the same client."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from millstream.model.overrides import Overrides
from millstream.model.settings import check_property, effective

if TYPE_CHECKING:
    from millstream.service.history.watch import Watch


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the answer to one pull query may be and take; None for no bound. The client cannot SET
    them: they are given by who serves it."""

    rows: int | None = None
    bytes: int | None = None
    milliseconds: int | None = None


@dataclass(slots=True)
class Session:
    """One client's property overrides and variables. `local` clients may read local files."""

    properties: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    local: bool = True
    bounds: Bounds = field(default_factory=Bounds)
    overrides: Overrides = field(default_factory=Overrides)
    inserted: bool = False
    """Whether records were inserted since the last pull query."""
    asserted: dict[tuple[str, int], int] = field(default_factory=dict)
    """Up to where ASSERT VALUES has matched a topic and partition."""
    copying: Callable[[str, int], None] | None = None
    """Told, as COPY goes on, the file and how many of its rows are in the stream."""
    filling: Callable[[Watch], None] | None = None
    """Told, as a back-fill begins, what knows how far it is and can end it."""

    def property(self, name: str) -> str:
        """The effective value of a property."""
        return effective(self.properties, name)

    def flag(self, name: str) -> bool:
        """The effective value of a boolean property."""
        return self.property(name) == "true"

    def set(self, name: str, value: str) -> tuple[str, str]:
        """Override a property; returns its canonical name and value. StatementError where it is
        unknown or prohibited."""
        self.overrides.check(name)
        canonical, checked = check_property(name, value)
        self.properties[canonical] = checked
        return canonical, checked

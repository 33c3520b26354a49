"""A row of the table: a statement about `tests.refusals.sources`, and how it is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Refused:
    """`marked` is the statement with « and » around the part that the refusal points at, without
    them where it points at nothing; `family` is the template, `parameters` are those it is given.
    `given` are properties of the session, which is not `local` for a client over the network."""

    marked: str
    family: str
    parameters: Mapping[str, str]
    given: Mapping[str, str] = field(default_factory=dict)
    local: bool = True

    @property
    def text(self) -> str:
        """The statement as it is given."""
        return self.marked.replace("«", "").replace("»", "")

    @property
    def place(self) -> tuple[int, int] | None:
        """Where the refusal points."""
        start = self.marked.find("«")
        return None if start < 0 else (start, self.marked.index("»") - 1)


def without(setting: str) -> Mapping[str, str]:
    """A session in which a setting is switched off."""
    return {setting: "false"}


NO_SCANS = without("ksql.query.pull.table.scan.enabled")

"""Drops expired state: often enough to keep it small, seldom enough not to slow down runs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from millstream.model.batch import PART
from millstream.state.store import Session
from millstream.state.tables import expired_text, quoted

_COMMITS = 16
_ROWS = 50_000
"""Expired state is searched for every so many commits, or sooner after so many written rows: while
a query catches up, one commit may hold a million."""


@dataclass(slots=True)
class Upkeep:
    """Removes what has expired from the caller's partitions only. Other threads write to the same
    tables at the same time, and when one deletes a row that another replaces, DuckDB keeps neither
    row and reports no error."""

    session: Session
    _commits: int = 0
    _rows: int = 0

    def before_commit(self, rows: int, partitions: Collection[int]) -> None:
        """Count `rows` that are about to be committed, and drop expired state when it is due."""
        self._commits += 1
        self._rows += rows
        if not partitions or (self._commits < _COMMITS and self._rows < _ROWS):
            return
        self._commits = self._rows = 0
        own = ", ".join(str(partition) for partition in sorted(partitions))
        for table in self.session.tables.values():
            if table.expiry is not None:
                self.session.begin()
                text = f"DELETE FROM {quoted(table.name)} t {expired_text(table.expiry)}"
                self.session.connection.execute(f"{text} AND t.{quoted(PART)} IN ({own})")

"""Dropping expired state, so often that it stays small and so seldom that nobody feels it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from millstream.model.batch import PART
from millstream.state.store import Session
from millstream.state.tables import quoted

_COMMITS = 16
_ROWS = 50_000
"""Expired state is looked for once in so many commits, or sooner when so many rows were written:
while a query catches up, a commit may hold a million."""


@dataclass(slots=True)
class Upkeep:
    """Runs a program's upkeep for those partitions that are its caller's: others write to the same
    tables at the same time, and of a row that one deletes while another replaces it, DuckDB keeps
    neither and tells nobody."""

    session: Session
    texts: tuple[str, ...]
    _commits: int = 0
    _rows: int = 0

    def before_commit(self, rows: int, partitions: Collection[int]) -> None:
        """So many `rows` are about to be committed: drop what has expired if it is time to."""
        self._commits += 1
        self._rows += rows
        if not partitions or (self._commits < _COMMITS and self._rows < _ROWS):
            return
        self._commits = self._rows = 0
        own = ", ".join(str(partition) for partition in sorted(partitions))
        for text in self.texts:
            self.session.begin()
            self.session.connection.execute(f"{text}\nAND t.{quoted(PART)} IN ({own})")

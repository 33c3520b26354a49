"""The changelog positions that the state of a sub-topology corresponds to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import duckdb

from millstream.state.statements import Statements
from millstream.state.tables import quoted

POSITIONS = '"$positions"'


class Position(NamedTuple):
    """The stored position of a partition, and the rows on its changelog since the last snapshot."""

    at: int
    written: int
    """Below 0 while the state of the partition is being loaded; a number for each load."""


def positions_table(database: str) -> str:
    """The full SQL name of the table of all positions."""
    return f"{quoted(database)}.main.{POSITIONS}"


def create_positions(connection: duckdb.DuckDBPyConnection, database: str) -> None:
    """Create the table when it is absent, or add what an earlier version lacks."""
    table = positions_table(database)
    connection.execute(
        f"CREATE TABLE IF NOT EXISTS {table} (query VARCHAR, subtopology INTEGER, part INTEGER,"
        " position BIGINT, written BIGINT DEFAULT 0, PRIMARY KEY (query, subtopology, part))"
    )
    connection.execute(f"ALTER TABLE {table} ADD COLUMN IF NOT EXISTS written BIGINT DEFAULT 0")


def stored_position(
    connection: duckdb.DuckDBPyConnection, database: str, query_id: str, subtopology: int, part: int
) -> Position | None:
    """The committed position of a partition, as a connection sees it; None if it has none."""
    found = connection.execute(
        f"SELECT position, written FROM {positions_table(database)}"
        " WHERE query = ? AND subtopology = ? AND part = ?",
        [query_id, subtopology, part],
    ).fetchall()
    return Position(found[0][0], found[0][1] or 0) if found else None


def positions_of(
    connection: duckdb.DuckDBPyConnection, database: str, query_id: str, subtopology: int
) -> dict[int, int]:
    """The position of each partition of a sub-topology whose state can be used."""
    found = connection.execute(
        f"SELECT part, position FROM {positions_table(database)}"
        " WHERE query = ? AND subtopology = ? AND written >= 0",
        [query_id, subtopology],
    ).fetchall()
    return dict(found)


def stored_positions(
    connection: duckdb.DuckDBPyConnection, database: str
) -> list[tuple[str, int, int, int]]:
    """The query, sub-topology, partition and position of each state that can be used."""
    return connection.execute(
        f"SELECT query, subtopology, part, position FROM {positions_table(database)}"
        " WHERE written >= 0 ORDER BY ALL"
    ).fetchall()


class Positions:
    """The rows of one sub-topology, through the connection that writes its state. Updating the rows
    that have changed takes a third of the time of replacing all of them."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        database: str,
        query_id: str,
        subtopology: int,
    ) -> None:
        self._connection = connection
        self._whose = database, query_id, subtopology
        self._table = positions_table(database)
        literal = query_id.replace("'", "''")
        self._row = f"'{literal}', {subtopology}"
        self._own = f"query = '{literal}' AND subtopology = {subtopology}"
        self._statements = Statements(connection, "position")
        self._known: dict[int, Position] = {}
        """The rows as last read or stored. Another session may have changed them since, but only
        while the partition is not open here."""

    def read(self, part: int) -> Position | None:
        """The stored position of a partition; None if it has none, or if loading it has not
        ended."""
        found = stored_position(self._connection, *self._whose, part)
        self._known.pop(part, None)
        if found is None or found.written < 0:
            return None
        self._known[part] = found
        return found

    def store(self, positions: Mapping[int, int], written: Mapping[int, int]) -> None:
        """Write the positions of partitions, inside the caller's transaction. Call `forget` if it
        does not commit."""
        wanted = {part: Position(at, written.get(part, 0)) for part, at in positions.items()}
        moved = {
            part: position
            for part, position in wanted.items()
            if part in self._known and position != self._known[part]
        }
        added = {part: position for part, position in wanted.items() if part not in self._known}
        if moved and self._update(moved) < len(moved):
            added |= moved
        if added:
            rows = ", ".join(
                f"({self._row}, {part}, {at}, {number})" for part, (at, number) in added.items()
            )
            self._connection.execute(f"INSERT OR REPLACE INTO {self._table} VALUES {rows}")
        self._known |= wanted

    def _update(self, moved: Mapping[int, Position]) -> int:
        """Change rows; returns how many there were."""
        if len(moved) == 1:
            ((part, position),) = moved.items()
            return self._update_one(part, position)
        at = _by_part({part: position.at for part, position in moved.items()})
        written = _by_part({part: position.written for part, position in moved.items()})
        parts = ", ".join(map(str, moved))
        ((count,),) = self._connection.execute(
            f"UPDATE {self._table} SET position = {at}, written = {written}"
            f" WHERE {self._own} AND part IN ({parts})"
        ).fetchall()
        return int(count)

    def _update_one(self, part: int, position: Position) -> int:
        text = (
            f"UPDATE {self._table} SET position = $1, written = $2 WHERE {self._own} AND part = $3"
        )
        name = self._statements.name(text, as_written=True)
        values = f"{position.at}::BIGINT, {position.written}::BIGINT, {part}"
        if name is None:
            result = self._connection.execute(text, [position.at, position.written, part])
        else:
            result = self._connection.execute(f"EXECUTE {name}({values})")
        ((count,),) = result.fetchall()
        return int(count)

    def prepare_again(self) -> None:
        """As `Views.prepare_again`."""
        self._statements.forget()

    def forget(self) -> None:
        """Forget the rows: the transaction that wrote them was rolled back."""
        self.prepare_again()
        self._known.clear()


def _by_part(values: Mapping[int, int]) -> str:
    cases = " ".join(f"WHEN {part} THEN {value}" for part, value in values.items())
    return f"CASE part {cases} END"

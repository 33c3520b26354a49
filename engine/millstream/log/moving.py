"""The SQL that moves tables of an embedded log to the front of its file: each is written again
under another name, and then takes the place of the old one."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb

from millstream.model.file_space import FileSpace, file_space_query

_SUFFIX = "_moved"
_OWN = "schema_name = 'log' AND database_name = current_database()"

# Long values are in blocks of their own.
_BLOCKS = """
SELECT coalesce(max(block), -1), count(DISTINCT block)
FROM (SELECT unnest([block_id] || additional_block_ids) AS block FROM pragma_storage_info(?))
WHERE block >= 0
"""


@dataclass(frozen=True, slots=True)
class Placed:
    """A table, with the last of its blocks in the file and the bytes that it takes there."""

    relation: str
    last: int
    bytes: int


def space(cursor: duckdb.DuckDBPyConnection) -> FileSpace:
    """The space of the file that the cursor uses."""
    (row,) = cursor.execute(file_space_query("current_database()")).fetchall()
    return FileSpace(*row)


def hindmost(cursor: duckdb.DuckDBPyConnection) -> list[Placed]:
    """The tables of the log, from the last one in the file on."""
    found, block_bytes = [], space(cursor).block_bytes
    # One moment for all: tables may be dropped meanwhile.
    cursor.begin()
    try:
        names = cursor.execute(f"SELECT table_name FROM duckdb_tables() WHERE {_OWN}").fetchall()
        for (name,) in names:
            ((last, blocks),) = cursor.execute(_BLOCKS, [f"log.{name}"]).fetchall()
            found.append(Placed(f"log.{name}", last, block_bytes * blocks))
    finally:
        cursor.rollback()
    return sorted(found, key=lambda placed: placed.last, reverse=True)


def copy(cursor: duckdb.DuckDBPyConnection, relation: str) -> bool:
    """Write a table as it is now once more, in the same order and with the same columns; returns
    False if it was dropped. Raises duckdb.CatalogException if it is dropped meanwhile."""
    drop_copy(cursor, relation)
    found = cursor.execute(
        f"SELECT sql FROM duckdb_tables() WHERE table_name = ? AND {_OWN}",
        [relation.removeprefix("log.")],
    ).fetchall()
    if not found:
        return False
    ((text,),) = found
    cursor.execute(
        f"CREATE TABLE {relation}{_SUFFIX}{text.removeprefix(f'CREATE TABLE {relation}')}"
    )
    cursor.execute(f"INSERT INTO {relation}{_SUFFIX} FROM {relation}")
    return True


def drop_copy(cursor: duckdb.DuckDBPyConnection, relation: str) -> None:
    """Drop what `copy` has written, if it is there."""
    cursor.execute(f"DROP TABLE IF EXISTS {relation}{_SUFFIX}")


def exchange(cursor: duckdb.DuckDBPyConnection, relation: str) -> None:
    """Let the copy of a table take its place (inside the caller's transaction)."""
    cursor.execute(f"DROP TABLE {relation}")
    cursor.execute(f"ALTER TABLE {relation}{_SUFFIX} RENAME TO {relation.removeprefix('log.')}")

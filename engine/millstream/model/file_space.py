"""How much of a DuckDB file is in use, and when it has so much free space that it is shrunk."""

from __future__ import annotations

from dataclasses import dataclass

SPARE_BYTES = 128 << 20
"""Free space that any file may have; a smaller file is never shrunk."""
MOST = 1.5
"""A file with more than so many times the bytes in use, and the spare ones, is shrunk."""


@dataclass(frozen=True, slots=True)
class FileSpace:
    """The blocks of a file as of its last checkpoint, and how many of them are in use."""

    block_bytes: int
    total_blocks: int
    used_blocks: int

    def exceeds(self, factor: float) -> bool:
        """Whether the file has more than `factor` times the bytes in use, and the spare ones."""
        used = factor * self.used_blocks * self.block_bytes
        return self.total_blocks * self.block_bytes > used + SPARE_BYTES


def file_space_query(database: str) -> str:
    """The query whose only row has the fields of `FileSpace`. `database`: an SQL expression for the
    name under which the file is attached."""
    return (
        "SELECT block_size, total_blocks, used_blocks FROM pragma_database_size()"
        f" WHERE database_name = {database}"
    )

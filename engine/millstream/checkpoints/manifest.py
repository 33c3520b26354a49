"""What one checkpoint consists of, as JSON. It is written last: without it, there is none."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass

from millstream.checkpoints.fingerprint import Fingerprint
from millstream.model.errors import CorruptionError
from millstream.places.sealed import sealed, unsealed

FORMAT = 1
ROWS_NAME = re.compile(r"([0-9]{20})-[0-9a-f]{32}-[0-9]+\.arrows")
"""The name of a file of rows; it begins with the position of the checkpoint it was written for."""


@dataclass(frozen=True, slots=True)
class RowsFile:
    """A file with rows of one state table: all of them or, with `changes`, the last one of each key
    that has changed since the file before it, `$deleted` or not."""

    name: str
    table: str
    rows: int
    bytes: int
    sha256: str
    changes: bool = False


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state of one task as of a position on its changelog. `files` are applied in their order;
    those with all rows are as of `base`. `fingerprint`: of the changelog before the position.
    `written`: the rows on it since the snapshot in it, as the state notes them."""

    position: int
    written: int
    base: int
    fingerprint: Fingerprint
    files: tuple[RowsFile, ...]

    @property
    def base_rows(self) -> int:
        """The rows of the state as of `base`."""
        return sum(file.rows for file in self.files if not file.changes)

    @property
    def changed_rows(self) -> int:
        """The rows of the files of changes."""
        return sum(file.rows for file in self.files if file.changes)


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """The content of a checkpoint's file."""
    return sealed("checkpoint", FORMAT, asdict(checkpoint))


def decode_checkpoint(name: str, content: bytes) -> Checkpoint:
    """The checkpoint that a file describes. Raises CorruptionError naming the file if it is
    damaged, UnavailableError (E-VERSION) if a later version wrote it."""
    try:
        hint = "The state is restored from the changelog."
        body = unsealed("checkpoint", FORMAT, name, content, hint=hint)
        files = tuple(RowsFile(**file) for file in body.pop("files"))
        if not all(ROWS_NAME.fullmatch(file.name) for file in files):
            raise ValueError("it names a file that is none of a checkpoint")
        fingerprint = Fingerprint(**body.pop("fingerprint"))
        return Checkpoint(**body, files=files, fingerprint=fingerprint)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise damaged(name, str(error)) from error


def damaged(name: str, detail: str) -> CorruptionError:
    """The error of a file of a checkpoint that is not as it was written."""
    return CorruptionError(
        f"The file '{name}' of a checkpoint is damaged.",
        detail=detail,
        hint="An earlier checkpoint or the changelog is used.",
        code="E-CHECKPOINT-DAMAGED",
    )

"""What one checkpoint consists of, as JSON. It is written last: without it, there is none."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from typing import Any

from millstream.checkpoints.witness import Witness
from millstream.model.errors import CorruptionError, UnavailableError

FORMAT = 1
_FILE = re.compile(r"[0-9]{20}-[0-9a-f]{32}-[0-9]+\.arrows")


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
    those with all rows are as of `base`. `witness`: the last record before the position. `written`:
    the rows on the changelog since the snapshot in it, as the state notes them."""

    position: int
    written: int
    base: int
    witness: Witness
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
    text = json.dumps(asdict(checkpoint), sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()
    whole = {"format": FORMAT, "sha256": digest, "checkpoint": asdict(checkpoint)}
    return json.dumps(whole).encode()


def decode_checkpoint(name: str, content: bytes) -> Checkpoint:
    """The checkpoint that a file describes. Raises CorruptionError naming the file if it is
    damaged, UnavailableError (E-VERSION) if a later version wrote it."""
    try:
        whole = json.loads(content)
        if whole["format"] != FORMAT:
            raise UnavailableError(
                f"The checkpoint '{name}' has format {whole['format']}; this version of Millstream"
                f" reads format {FORMAT}.",
                hint="The state is restored from the changelog.",
                code="E-VERSION",
            )
        body: dict[str, Any] = whole["checkpoint"]
        digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        if whole["sha256"] != digest:
            raise ValueError("its checksum is another one")
        files = tuple(RowsFile(**file) for file in body.pop("files"))
        if not all(_FILE.fullmatch(file.name) for file in files):
            raise ValueError("it names a file that is none of a checkpoint")
        witness = Witness(**body.pop("witness"))
        return Checkpoint(**body, files=files, witness=witness)
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

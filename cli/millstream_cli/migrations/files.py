"""The files of a project of migrations: as ksql-migrations lays them out."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from millstream.model.errors import StatementError
from millstream.scripts.text import read_script, read_text, split_text
from millstream_parser.lexemes import LexemeKind, lexemes

PROPERTIES = "ksql-migrations.properties"
FOLDER = "migrations"
VERSION_MAX = 999_999
_DESCRIPTION_MAX = 235
"""With it, the name of a file has the 255 bytes that file systems allow."""
_NAME = re.compile(r"V(\d{6})__([^/]+)\.sql")
_HEADER = re.compile(r"\s*([!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*[=:]\s*([\x20-\x7e]*?)\s*")
_READING = ("SELECT", "PRINT", "SHOW", "LIST", "DESCRIBE", "EXPLAIN", "RUN", "PEEK", "SPOOL")


@dataclass(frozen=True, slots=True)
class Migration:
    """One file. `checksum` is the MD5 of its bytes, which is what ksqlDB's tool records."""

    version: int
    path: Path

    @property
    def name(self) -> str:
        """The description in the file's name, with blanks."""
        match = _NAME.fullmatch(self.path.name)
        assert match is not None
        return match[2].replace("_", " ")

    @property
    def checksum(self) -> str:
        """As of now."""
        return hashlib.md5(self.path.read_bytes(), usedforsecurity=False).hexdigest()

    def statements(self) -> list[str]:
        """Its statements, each with its semicolon. Raises StatementError for one that only
        reads, before any is executed."""
        found = [part.strip() for part in split_text(read_script(str(self.path)))]
        for statement in found:
            first = next((w for w in lexemes(statement) if w.kind is LexemeKind.WORD), None)
            if first is not None and first.upper in _READING:
                raise StatementError(
                    f"{self.path.name}: {first.upper} changes nothing, so it is no migration.",
                    hint="Migrations create, alter, drop, insert, set and assert.",
                )
        return [f"{statement};" for statement in found if statement]


def new_project(folder: Path, url: str) -> None:
    """Make a project, whose files all are new."""
    settings = folder / PROPERTIES
    if settings.exists():
        raise StatementError(f"There is a project at {folder} already.")
    (folder / FOLDER).mkdir(parents=True, exist_ok=True)
    settings.write_text(
        "# The server, or the file of a database that no process has open.\n"
        f"ksql.server.url={url}\n",
        encoding="utf-8",
    )


def migrations(folder: Path) -> list[Migration]:
    """All migrations of a folder by version. Raises StatementError for two with one version, and
    for a file that looks like a migration and is none."""
    if not folder.is_dir():
        raise StatementError(f"There is no folder {folder}.", hint="`new-project` makes one.")
    found: dict[int, Migration] = {}
    for path in sorted(folder.iterdir()):
        match = _NAME.fullmatch(path.name)
        if match is None:
            if path.suffix.lower() == ".sql":
                raise StatementError(
                    f"{path.name} is no name of a migration.",
                    hint="It is like V000001__What_it_does.sql; `create` makes one.",
                )
            continue
        made = Migration(int(match[1]), path)
        if made.version in found:
            other = found[made.version].path.name
            raise StatementError(f"{other} and {path.name} have the same version.")
        if made.version == 0:
            raise StatementError(f"{path.name}: versions begin with 1.")
        found[made.version] = made
    return [found[version] for version in sorted(found)]


def create(folder: Path, description: str, version: int | None) -> Path:
    """Make an empty migration, with the next version if none is given."""
    known = migrations(folder)
    number = version if version is not None else (known[-1].version + 1 if known else 1)
    if not 1 <= number <= VERSION_MAX:
        raise StatementError(f"A version is a number from 1 to {VERSION_MAX}, not {number}.")
    if any(one.version == number for one in known):
        raise StatementError(f"There is a migration with version {number} already.")
    name = re.sub(r"\W+", "_", description.strip()).strip("_")
    if not name or len(name.encode()) > _DESCRIPTION_MAX:
        raise StatementError(
            f"'{description}' cannot be a part of a file's name.",
            hint="Describe the migration in some words.",
        )
    path = folder / f"V{number:06d}__{name}.sql"
    path.touch(exist_ok=False)
    return path


def read_headers(path: str) -> dict[str, str]:
    """The headers in a file of lines `name=value` or `name: value`. Raises StatementError for a
    line that is none."""
    found = {}
    for number, line in enumerate(read_text(path, "the headers").splitlines(), 1):
        if not line.strip() or line.lstrip().startswith(("#", "!")):
            continue
        match = _HEADER.fullmatch(line)
        if match is None:
            # The line may hold a secret.
            raise StatementError(f"{path}, line {number} is no header.", hint="Write name=value.")
        found[match[1]] = match[2]
    return found

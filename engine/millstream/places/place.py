"""A folder that a URL names: on this machine, or in an object store."""

from __future__ import annotations

import hashlib
import os
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
from pyarrow import fs

from millstream.model.errors import StatementError, UnavailableError

Result = TypeVar("Result")
_BLOCK = 4 << 20


@dataclass(frozen=True, slots=True)
class Purpose:
    """What a place is for, as errors tell it: its plural, what to do, and the code."""

    name: str
    hint: str
    code: str


BACKUPS = Purpose("backups", "What was backed up before is there as it was.", "E-BACKUP-PLACE")


def is_place(name: str) -> bool:
    """Whether a name is that of a place, and not of a file."""
    return "://" in name or Path(name).is_dir()


class HashingFile:
    """A file that is written from its start to its end, and hashed on the way."""

    closed = False

    def __init__(self, stream: pa.NativeFile) -> None:
        self._stream = stream
        self.size = 0
        self.digest = hashlib.sha256()

    def write(self, block: bytes) -> int:
        """Append bytes."""
        self._stream.write(block)
        self.digest.update(block)
        self.size += len(block)
        return len(block)

    def flush(self) -> None:
        """Nothing is held back here."""

    def close(self) -> None:
        """The stream is closed by who has opened it."""


@dataclass(frozen=True, slots=True)
class Place:
    """A folder of a file system. Names are relative to it, with `/`.

    All methods raise UnavailableError, with the code of its purpose, when it does not answer, or
    refuses.
    """

    url: str
    system: fs.FileSystem
    root: str
    purpose: Purpose = BACKUPS

    @staticmethod
    def of(url: str, purpose: Purpose = BACKUPS) -> Place:
        """The place that a URL (`file://`, `s3://`, `gs://`, `hdfs://`) or a path names. Raises
        StatementError (E-CONFIG) for a URL that names none."""
        if "://" not in url:
            return Place(url, fs.LocalFileSystem(), str(Path(url).absolute()), purpose)
        try:
            system, root = fs.FileSystem.from_uri(url)
        except (OSError, ValueError, pa.ArrowException) as error:
            raise StatementError(
                f"'{url}' names no place for {purpose.name}.",
                detail=str(error),
                hint="Give a folder, or a URL such as s3://bucket/shop.",
                code="E-CONFIG",
            ) from error
        return Place(url, system, root.rstrip("/"), purpose)

    @property
    def shown(self) -> str:
        """The URL as errors show it: without the credentials that may be in it."""
        return re.sub(r"//[^/@]*@", "//…@", self.url.partition("?")[0])

    def write(self, name: str, write: Callable[[HashingFile], object]) -> tuple[int, str]:
        """Write a file, which has the name when it is complete; in place of one that is there.
        Returns its size and the SHA-256 of its content."""
        local = isinstance(self.system, fs.LocalFileSystem)
        path = self._path(name)

        def call() -> tuple[int, str]:
            self.system.create_dir(path.rpartition("/")[0], recursive=True)
            # An object in a store is there when all of it is.
            target = f"{path}.{uuid.uuid4().hex}.part" if local else path
            try:
                with self.system.open_output_stream(target) as stream:
                    file = HashingFile(stream)
                    write(file)
                if local:
                    _sync(target)
                    self.system.move(target, path)
            except BaseException:
                if local and Path(target).exists():
                    Path(target).unlink()
                raise
            return file.size, file.digest.hexdigest()

        return self._asked(call, f"write '{name}' to")

    def read(self, name: str) -> bytes:
        """The content of a small file."""

        def call() -> bytes:
            with self.system.open_input_stream(self._path(name), compression=None) as stream:
                return bytes(stream.read())

        return self._asked(call, f"read '{name}' of")

    def open(self, name: str) -> pa.NativeFile:
        """A file for random access; the caller closes it."""
        return self._asked(
            lambda: self.system.open_input_file(self._path(name)), f"read '{name}' of"
        )

    def digest(self, name: str) -> tuple[int, str]:
        """The size of a file and the SHA-256 of its content."""

        def call() -> tuple[int, str]:
            size, found = 0, hashlib.sha256()
            with self.system.open_input_stream(self._path(name), compression=None) as stream:
                while block := stream.read(_BLOCK):
                    size += len(block)
                    found.update(block)
            return size, found.hexdigest()

        return self._asked(call, f"read '{name}' of")

    def names(self, folder: str) -> list[str]:
        """The files in a folder, without those in its folders; none if it does not exist."""
        return self._listed(folder, fs.FileType.File)

    def folders(self, folder: str) -> list[str]:
        """The folders in a folder; none if it does not exist."""
        return self._listed(folder, fs.FileType.Directory)

    def _listed(self, folder: str, kind: fs.FileType) -> list[str]:
        selector = fs.FileSelector(self._path(folder), allow_not_found=True)
        found = self._asked(lambda: self.system.get_file_info(selector), "list the files of")
        return sorted(f"{folder}/{info.base_name}" for info in found if info.type is kind)

    def delete_folder(self, folder: str) -> None:
        """Delete a folder with all that is in it; no error when it is not there."""

        def call() -> None:
            if self.system.get_file_info(self._path(folder)).type is fs.FileType.Directory:
                self.system.delete_dir(self._path(folder))

        self._asked(call, f"delete '{folder}' from")

    def delete(self, name: str) -> None:
        """Delete a file; no error when it is not there."""

        def call() -> None:
            if self.system.get_file_info(self._path(name)).type is fs.FileType.File:
                self.system.delete_file(self._path(name))

        self._asked(call, f"delete '{name}' from")

    def _path(self, name: str) -> str:
        return f"{self.root}/{name}"

    def _asked(self, call: Callable[[], Result], what: str) -> Result:
        try:
            return call()
        except (OSError, pa.ArrowException) as error:
            raise UnavailableError(
                f"Could not {what} the {self.purpose.name} at '{self.shown}'.",
                detail=str(error),
                hint=self.purpose.hint,
                code=self.purpose.code,
            ) from error


def _sync(path: str) -> None:
    with Path(path).open("rb+") as file:
        os.fsync(file.fileno())

"""A local file system with failing calls, for tests of what uses a place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import fs

from millstream.places import place


class FailingDisk(fs.LocalFileSystem):
    """The disk of this machine: `fails(call)` says whether a call, counted over all, fails."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.fails: Callable[[int], bool] = lambda call: False

    def _count(self) -> None:
        self.calls += 1
        if self.fails(self.calls - 1):
            raise OSError(28, "No space left on device")

    def create_dir(self, *arguments: Any, **named: Any) -> None:
        self._count()
        super().create_dir(*arguments, **named)

    def open_output_stream(self, *arguments: Any, **named: Any) -> Any:
        self._count()
        return FailingStream(super().open_output_stream(*arguments, **named), self._count)

    def open_input_stream(self, *arguments: Any, **named: Any) -> Any:
        self._count()
        return super().open_input_stream(*arguments, **named)

    def open_input_file(self, *arguments: Any, **named: Any) -> Any:
        self._count()
        return super().open_input_file(*arguments, **named)

    def get_file_info(self, *arguments: Any, **named: Any) -> Any:
        self._count()
        return super().get_file_info(*arguments, **named)

    def move(self, *arguments: Any, **named: Any) -> None:
        self._count()
        super().move(*arguments, **named)

    def delete_file(self, *arguments: Any, **named: Any) -> None:
        self._count()
        super().delete_file(*arguments, **named)


class FailingStream:
    """A stream whose writes are counted, too."""

    def __init__(self, stream: pa.NativeFile, count: Callable[[], None]) -> None:
        self._stream = stream
        self._count = count

    def write(self, block: bytes) -> int:
        self._count()
        return int(self._stream.write(block))

    def __enter__(self) -> FailingStream:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()


@contextmanager
def failing(monkeypatch: pytest.MonkeyPatch) -> Iterator[FailingDisk]:
    """Places of this machine are on the disk that this gives."""
    disk = FailingDisk()

    def of(url: str, purpose: place.Purpose = place.BACKUPS) -> place.Place:
        return place.Place(url, disk, str(Path(url).absolute()), purpose)

    with monkeypatch.context() as patched:
        patched.setattr(place.Place, "of", staticmethod(of))
        yield disk

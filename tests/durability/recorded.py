"""What a process did to the files of a folder, and the images that a loss of power may leave.

A write survives for certain once its file is synced; before, it may be lost, or torn between two
sectors, whatever became of later ones. Creating, renaming, deleting and cutting files survive in
their order, as on a file system with a journal: some last of them may be lost, none that a later
sync of any file follows.
"""

from __future__ import annotations

import os
import random
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

HERE = Path(__file__).parent
_HEAD = struct.Struct("<Biqq")
SECTOR = 512


class Kind(IntEnum):
    """What was done."""

    NAMED = 1
    WRITTEN = 2
    TRUNCATED = 3
    SYNCED = 4
    RENAMED = 5
    UNLINKED = 6
    CREATED = 7
    LINKED = 8


METADATA = frozenset({Kind.TRUNCATED, Kind.RENAMED, Kind.UNLINKED, Kind.CREATED, Kind.LINKED})


@dataclass(frozen=True, slots=True)
class Step:
    """One call. `offset`: where it wrote, or the length or the other file that it names."""

    kind: Kind
    file: int
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Recording:
    """All calls in their order, and the names of the files."""

    names: Sequence[str]
    steps: Sequence[Step]


def built(folder: Path) -> Path:
    """The library that records."""
    library = folder / "record.so"
    source = HERE / "record.c"
    flags = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]
    subprocess.run(["cc", *flags, str(source), "-o", str(library), "-ldl", "-lpthread"], check=True)
    return library


def record(module: str, folder: Path, scratch: Path, *arguments: str) -> Recording:
    """Run a module of Python that writes in a folder, and record what it does there."""
    trace = scratch / "trace"
    environment = {
        **os.environ,
        "LD_PRELOAD": str(built(scratch)),
        "RECORD_TO": str(trace),
        "RECORD_BELOW": f"{folder}/",
    }
    subprocess.run(
        [sys.executable, "-m", module, str(folder), *arguments],
        env=environment,
        check=True,
        cwd=HERE.parent.parent,
    )
    return read(trace.read_bytes())


def read(content: bytes) -> Recording:
    """The calls that the library has recorded."""
    names: list[str] = []
    steps: list[Step] = []
    at = 0
    while at < len(content):
        kind, file, offset, length = _HEAD.unpack_from(content, at)
        at += _HEAD.size
        data = content[at : at + length]
        at += length
        if kind == Kind.NAMED:
            names.append(data.decode())
        else:
            steps.append(Step(Kind(kind), file, offset, data))
    return Recording(names, steps)


def images(recording: Recording, count: int, seed: int) -> Iterator[tuple[int, dict[str, bytes]]]:
    """So many images that a loss of power may leave, at random moments: how many steps were done,
    and the content of the files by name."""
    chance = random.Random(seed)
    for _ in range(count):
        done = chance.randint(1, len(recording.steps))
        yield done, image(recording, done, chance)


def image(recording: Recording, done: int, chance: random.Random) -> dict[str, bytes]:
    """What may be there when power is lost after `done` steps."""
    steps = recording.steps[:done]
    last_sync = max((i for i, step in enumerate(steps) if step.kind is Kind.SYNCED), default=-1)
    metadata = [i for i, step in enumerate(steps) if step.kind in METADATA and i > last_sync]
    lost_from = chance.choice([*metadata, done]) if metadata else done
    synced: dict[int, int] = {}
    for number, step in enumerate(steps):
        if step.kind is Kind.SYNCED:
            synced[step.file] = number
    style = chance.choice(["all", "none", "some", "torn"])
    files: dict[int, bytearray] = {}
    unborn: set[int] = set()
    for number, step in enumerate(steps):
        if step.kind in METADATA and number >= lost_from:
            # What is written to a file that was not made is not written to its predecessor.
            if step.kind is Kind.CREATED:
                unborn.add(step.file)
            elif step.kind in (Kind.RENAMED, Kind.LINKED):
                unborn.add(step.offset)
            continue
        if step.file in unborn:
            continue
        if step.kind is Kind.WRITTEN and number > synced.get(step.file, -1):
            kept = _surviving(step, style, chance)
        else:
            kept = step
        if kept is not None:
            _apply(files, kept)
    return {Path(recording.names[file]).name: bytes(content) for file, content in files.items()}


def _surviving(step: Step, style: str, chance: random.Random) -> Step | None:
    """What is left of a write that was not synced."""
    if style == "all":
        return step
    if style == "none" or chance.random() < 0.5:
        return None
    if style == "torn":
        # Sectors of the disk, and not of the write, are whole.
        lead = -step.offset % SECTOR
        edges = [0, *range(lead or SECTOR, len(step.data), SECTOR), len(step.data)]
        first, stop = sorted(chance.sample(edges, 2))
        return Step(step.kind, step.file, step.offset + first, step.data[first:stop])
    return step


def _apply(files: dict[int, bytearray], step: Step) -> None:
    match step.kind:
        case Kind.CREATED:
            files[step.file] = bytearray()
        case Kind.UNLINKED:
            files.pop(step.file, None)
        case Kind.RENAMED:
            if step.file in files:
                files[step.offset] = files.pop(step.file)
        case Kind.LINKED:
            # The first name is not written to any more.
            if step.file in files:
                files[step.offset] = bytearray(files[step.file])
        case Kind.TRUNCATED:
            _resize(files, step.file, step.offset)
        case Kind.WRITTEN if step.file in files:
            content = files[step.file]
            stop = step.offset + len(step.data)
            if len(content) < stop:
                _resize(files, step.file, stop)
            files[step.file][step.offset : stop] = step.data


def _resize(files: dict[int, bytearray], file: int, length: int) -> None:
    if file in files:
        content = files[file]
        del content[length:]
        content.extend(bytes(length - len(content)))

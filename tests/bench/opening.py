"""How long a large database takes to open.

    python -m tests.bench.opening [--keys 10000000] [--bytes 1000] [--folder FOLDER]

A stream has one record of each key with a random text of so many bytes, and a table counts them by
key. Another process opens the database then, after the files were asked to leave the system's
cache: until `connect` returns, until a pull query has found a key, and until a record that is
inserted has been counted.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

import millstream
from millstream.model.settings import EngineSettings
from tests.bench.figures.usage import resident_mb
from tests.patience import until

BATCH = 200_000
SETTINGS = EngineSettings(memory_limit="4GB", linger_ms=0)
STATEMENTS = """
CREATE STREAM s (k STRING KEY, v STRING)
  WITH (KAFKA_TOPIC='s', PARTITIONS=4, VALUE_FORMAT='JSON');
CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;
"""


def connect(path: Path) -> millstream.Database:
    """The database, which reads from the first record."""
    properties = {"auto.offset.reset": "earliest"}
    return millstream.connect(path, settings=SETTINGS, properties=properties)


def texts(count: int, size: int) -> pa.Array:
    """Texts of letters that do not compress to much less than half."""
    letters = np.random.default_rng(count).integers(97, 123, count * size, np.uint8)
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(size)
    return pa.StringArray.from_buffers(
        count, pa.py_buffer(offsets.tobytes()), pa.py_buffer(letters.tobytes())
    )


def make(path: Path, keys: int, size: int) -> None:
    """Fill the database, and close it."""
    with connect(path) as db:
        db.execute(STATEMENTS)
        for first in range(0, keys, BATCH):
            count = min(BATCH, keys - first)
            names = pa.array([f"key-{n:012d}" for n in range(first, first + count)])
            db.insert("s", pa.table({"k": names, "v": texts(count, size)}))
        db.wait()


def forget(path: Path) -> None:
    """Ask the system to read the files from the disk again."""
    for file in path.parent.iterdir():
        with file.open("rb") as opened:
            os.fsync(opened.fileno())
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def counted(db: millstream.Database, key: str) -> int:
    """The count of a key; 0 where there is none."""
    rows = db.execute(f"SELECT n FROM t WHERE k = '{key}';").fetchall()  # type: ignore[union-attr]
    return int(rows[0][0]) if rows else 0


def open_again(path: Path, keys: int) -> None:
    """Open it in this process, and print what takes how long."""
    began = time.perf_counter()

    def tell(what: str) -> None:
        used = resource.getrusage(resource.RUSAGE_SELF)
        cpu = used.ru_utime + used.ru_stime
        took = time.perf_counter() - began
        print(f"{what:<36}{took:8.2f} s {cpu:8.2f} CPU s with imports", flush=True)

    db = connect(path)
    tell("opened")
    assert counted(db, f"key-{keys // 2:012d}") == 1
    tell("a key was found")
    db.execute("INSERT INTO s (k, v) VALUES ('new', 'x');")
    until(lambda: counted(db, "new") == 1)
    tell("a new record was counted")
    assert all(status.metrics.records_in <= 1 for status in db.engine.statuses())
    tell(f"{resident_mb()} MB of memory")
    db.close()


def main(arguments: list[str]) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="opening", description=__doc__)
    parser.add_argument("--keys", type=int, default=10_000_000)
    parser.add_argument("--bytes", type=int, default=1000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--open", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.open is not None:
        open_again(options.open, options.keys)
        return 0
    with tempfile.TemporaryDirectory(prefix="millstream-opening-", dir=options.folder) as folder:
        path = Path(folder) / "large.db"
        began = time.perf_counter()
        make(path, options.keys, options.bytes)
        print(f"made in {time.perf_counter() - began:.0f} s", flush=True)
        for file in sorted(path.parent.iterdir()):
            print(f"{file.name:<36}{file.stat().st_size / 1e9:8.2f} GB", flush=True)
        forget(path)
        command = [sys.executable, "-m", "tests.bench.opening", "--open", str(path),
                   "--keys", str(options.keys)]  # fmt: skip
        return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

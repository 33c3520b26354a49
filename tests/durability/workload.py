"""A database that is worked with: run by images.py under the library that records.

Each number that is inserted is acknowledged in the file `acked` when the insert has returned, so
the recording tells what must be there at each moment.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from unittest.mock import patch

import millstream
from millstream.log import shrinking
from millstream.log.embedded import EmbeddedLog
from millstream.log.log import Appended, Topic
from millstream.model import file_space
from millstream.model.batch import raw_batch
from millstream.model.settings import EngineSettings

SCRIPT = """
CREATE STREAM s (k STRING KEY, v INT) WITH (KAFKA_TOPIC='s', PARTITIONS=2, FORMAT='JSON');
SET 'auto.offset.reset' = 'earliest';
SET 'processing.guarantee' = 'exactly_once_v2';
CREATE TABLE sums AS SELECT k, COUNT(*) AS n, SUM(v) AS total FROM s GROUP BY k EMIT CHANGES;
"""
NAME = "a.db"
SCRATCH = Topic("scratch", 1)


def shrink(log: EmbeddedLog) -> None:
    """Have tables moved to the front of the file: whatever is free there is too much.

    For this call only: the log's own thread would write checkpoints later, and a process that is
    killed at the end would leave nothing in the write-ahead log.
    """
    anything = patch.multiple(file_space, SPARE_BYTES=0, MOST=1.0)
    with anything, patch.object(shrinking, "ENOUGH", 1.0):
        log.create_topic(SCRATCH)
        values = [os.urandom(50_000) for _ in range(10)]
        batch = raw_batch([(None, value, 0) for value in values])
        log.send([Appended(SCRATCH.name, 0, batch, len(values))])
        with log._lock:
            log._file.checkpoint()
        log.delete_topic(SCRATCH.name)
        log.shrink()


def main() -> None:
    """Insert so many numbers into the database of a folder, which is opened several times. With
    `--wait` it stays open at the end."""
    folder, count = Path(sys.argv[1]), int(sys.argv[2])
    acked = os.open(folder / "acked", os.O_WRONLY | os.O_CREAT, 0o600)
    number = 0
    while number < count:
        with millstream.connect(folder / NAME, settings=EngineSettings(linger_ms=0)) as db:
            if number == 0:
                db.execute(SCRIPT)
            for _ in range(count // 4):
                db.execute(f"INSERT INTO s VALUES ('k{number % 5}', {number});")
                os.pwrite(acked, number.to_bytes(4, "little"), 4 * number)
                number += 1
                if number % 10 == 0 or number == count:
                    db.wait()
                log = db.engine.log
                assert isinstance(log, EmbeddedLog)
                if number % 25 == 0:
                    with log._lock:
                        log._file.checkpoint()
                if number % 25 == 17:
                    shrink(log)
            if number == count and "--wait" in sys.argv:
                print("done", flush=True)
                signal.pause()
    os.close(acked)


if __name__ == "__main__":
    main()

"""Work on a log with a topic that is compacted, and a file that is shrunk, all the time."""

from __future__ import annotations

import random
import sys
import threading

from millstream.log import shrinking
from millstream.log.embedded import EmbeddedLog
from millstream.log.log import Appended, Topic
from millstream.model import file_space
from millstream.model.batch import raw_batch

PARTITIONS = 2
KEYS = 50
CONFIG = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.1",
    "segment.bytes": "4000",
    "segment.ms": "60",
}


def work(path: str, finish: bool) -> None:
    """Append numbered records to `numbers` and, at the same time, to the compacted `newest`."""
    # Whatever is free is too much.
    file_space.SPARE_BYTES, file_space.MOST, shrinking.ENOUGH = 0, 1.0, 1.0
    log = EmbeddedLog.open(path, tail_bytes=0, compacting=False)
    for topic in (Topic("numbers", PARTITIONS), Topic("newest", PARTITIONS, config=CONFIG)):
        if log.topic(topic.name) is None:
            log.create_topic(topic)
    if finish:
        while log.compact():
            pass
        log.close()
        return

    def compact_for_ever() -> None:
        while True:
            log.compact()
            log.shrink()
            log.maintain()

    threading.Thread(target=compact_for_ever, daemon=True).start()
    append(log)


def append(log: EmbeddedLog) -> None:
    number = sum(log.end_offset("numbers", part) for part in range(PARTITIONS))
    rng, client = random.Random(number), log.writer("client")
    sys.stdout.write("ready\n")
    while True:
        count, part = rng.choice((1, 2, 30)), rng.randrange(PARTITIONS)
        values = range(number, number + count)
        batch = raw_batch([(b"%d" % rng.randrange(KEYS), b'{"N":%d}' % n, n) for n in values])
        client.append([Appended(name, part, batch, count) for name in ("numbers", "newest")])
        number += count
        sys.stdout.write(f"acked {number - 1}\n")
        sys.stdout.flush()

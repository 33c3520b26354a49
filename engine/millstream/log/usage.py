"""What topics hold: offsets, sizes and ages, for those who decide how long records are kept."""

from __future__ import annotations

from dataclasses import dataclass

USAGE_COLUMNS = ("First Offsets", "End Offsets", "Records", "Bytes", "Oldest Record", "To Compact")
"""What SHOW TOPICS EXTENDED tells of a topic besides what it does in ksqlDB."""


@dataclass(frozen=True, slots=True)
class TopicUsage:
    """What a topic holds. `starts` and `ends`: by partition, the first offset that is kept and the
    one after the last. What a log cannot tell is None.

    `bytes`: of keys, values and what is stored with each record, before the file's compression.
    `oldest`: the earliest time of a record in ms, also None if there is no record. `uncompacted`:
    the bytes of a topic with `cleanup.policy=compact` that compaction has not been through.
    """

    starts: tuple[int, ...]
    ends: tuple[int, ...]
    records: int | None = None
    bytes: int | None = None
    oldest: int | None = None
    uncompacted: int | None = None

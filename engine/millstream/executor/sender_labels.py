"""The label of a record on a repartition topic: which tasks have sent its rows. It is the record's
key, as text: `3`, or `0-15,17`. A record without a label is of an instance that has all tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby

import pyarrow as pa

from millstream.model.batch import NO_RECORDS
from millstream.model.errors import CorruptionError
from millstream.runtime.sender_buffer import LabelledRecord


def label(senders: Sequence[int]) -> bytes:
    """The label for these tasks, given in ascending order."""
    return ",".join(_ranges(senders)).encode()


def _ranges(senders: Sequence[int]) -> Iterator[str]:
    for _, run in groupby(enumerate(senders), lambda item: item[1] - item[0]):
        first, *_, last = [sender for _, sender in run] * 2
        yield str(first) if first == last else f"{first}-{last}"


@lru_cache(1024)
def senders_of(content: bytes) -> frozenset[int]:
    """The tasks that a label names. Raises CorruptionError for any other bytes."""
    found: set[int] = set()
    try:
        for part in content.decode().split(","):
            first, dash, last = part.partition("-")
            found.update(range(int(first), int(last if dash else first) + 1))
    except ValueError as error:
        raise CorruptionError(
            f"Cannot read the key {content[:40]!r} of a record on a repartition topic: it should"
            " name the tasks that have sent its rows"
        ) from error
    return frozenset(found)


class SenderLabels:
    """Implements `runtime.sender_buffer.Labels` over Arrow tables of records."""

    def records(self, batch: pa.Table) -> list[LabelledRecord[pa.Table]]:
        """See `Labels`."""
        keys, offsets = batch["key"].to_pylist(), batch["offset"].to_pylist()
        nobody = frozenset[int]()
        size = batch.nbytes // max(1, batch.num_rows)
        return [
            LabelledRecord(
                offset,
                nobody if key is None else senders_of(key),
                size,
                batch.slice(index, 1),
            )
            for index, (offset, key) in enumerate(zip(offsets, keys, strict=True))
        ]

    def join(self, batches: Sequence[pa.Table]) -> pa.Table:
        """See `Labels`."""
        return pa.concat_tables(batches) if batches else NO_RECORDS


SENDER_LABELS = SenderLabels()

"""Records of other programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millstream import Database
from millstream.log.log import Appended
from millstream.model.batch import raw_batch

Headers = list[tuple[str, bytes]]


def append(
    db: Database, topic: str, *values: bytes | None, headers: Sequence[Headers] | None = None
) -> None:
    """Append records without keys to the first partition of a topic. `headers`: of each of them."""
    shown: list[Any] | None = None
    if headers is not None:
        shown = [[{"key": key, "value": value} for key, value in each] for each in headers]
    batch = raw_batch([(None, value, 0) for value in values], shown)
    db.engine.log.send([Appended(topic, 0, batch, len(values), batch.nbytes)])
    db.engine.driver.wake()

"""Records of other programs."""

from __future__ import annotations

from millstream import Database
from millstream.log.log import Appended
from millstream.model.batch import raw_batch


def append(db: Database, topic: str, *values: bytes) -> None:
    """Append records without keys to the first partition of a topic."""
    batch = raw_batch([(None, value, 0) for value in values])
    db.engine.log.send([Appended(topic, 0, batch, len(values), batch.nbytes)])
    db.engine.driver.wake()

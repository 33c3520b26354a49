"""The mark is never ahead of the log, also when records leave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from millstream.log import commit_mark, tables
from millstream.log.commit_mark import noted
from millstream.log.embedded import EmbeddedLog
from millstream.log.log import Appended, Topic
from millstream.model.batch import raw_batch


def test_it_is_durable_before_a_topic_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a loss of power may leave a log that lacks records it should not have."""
    path, done = tmp_path / "a.db", list[tuple[str, int]]()
    log = EmbeddedLog.open(path)
    for name, count in (("a", 3), ("b", 4)):
        log.create_topic(Topic(name, 1))
        log.send([Appended(name, 0, raw_batch([(None, b"v", 0)] * count), count)])
    original = tables.drop_topic

    def drop_topic(*given: Any) -> None:
        done.append(("dropped", noted(str(path))))
        original(*given)

    monkeypatch.setattr(tables, "drop_topic", drop_topic)
    monkeypatch.setattr(
        commit_mark.os, "fsync", lambda descriptor: done.append(("synced", noted(str(path))))
    )
    log.delete_topic("a")
    assert done == [("synced", 4), ("dropped", 4)]
    log.send([Appended("b", 0, raw_batch([(None, b"v", 0)]), 1)])
    assert done[2:] == [], "an append does not wait for it"
    log.close()
    assert noted(str(path)) == 5

"""Measures the topics of an embedded log."""

from __future__ import annotations

import threading
from collections.abc import Collection
from itertools import pairwise

import duckdb

from millstream.log.contents import Contents
from millstream.log.duckfile import reading_error
from millstream.log.logfile import LogFile
from millstream.log.measures import SegmentMeasures
from millstream.log.stored import Stored
from millstream.log.usage import TopicUsage


class EmbeddedUsage:
    """Measures the topics of an embedded log; a closed segment once. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._measures = SegmentMeasures()

    def of(
        self, file: LogFile, contents: Contents, names: Collection[str]
    ) -> dict[str, TopicUsage]:
        """What those of these topics hold that exist."""
        try:
            return self._measured(file, contents, names)
        except duckdb.Error:
            # Segments were replaced or dropped meanwhile.
            try:
                return self._measured(file, contents, names)
            except duckdb.Error as error:
                raise reading_error(file.path, ", ".join(names), error) from error

    def _measured(
        self, file: LogFile, contents: Contents, names: Collection[str]
    ) -> dict[str, TopicUsage]:
        known = contents.topics
        topics = [known[name] for name in names if name in known]
        with self._lock, file.cursor() as cursor:
            self._measures.forget_others(tuple(known.values()))
            return {stored.topic.name: self._usage(cursor, stored) for stored in topics}

    def _usage(self, cursor: duckdb.DuckDBPyConnection, stored: Stored) -> TopicUsage:
        measured = [self._measures.now(cursor, stored, segment) for segment in stored.segments]
        parts = [part for each in measured for part in each.values()]
        dirty = [
            sum(part.bytes for part in each.values())
            for (segment, _), each in zip(pairwise(stored.segments), measured, strict=False)
            if not segment.cleaned
        ]
        return TopicUsage(
            stored.starts,
            stored.ends,
            sum(part.records for part in parts),
            sum(part.bytes for part in parts),
            min((part.oldest for part in parts), default=None),
            sum(dirty) if stored.policy.compacts else None,
        )

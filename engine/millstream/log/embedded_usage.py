"""Measures the topics of an embedded log."""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import replace
from itertools import pairwise

import duckdb

from millstream.log.contents import Contents
from millstream.log.duckfile import reading_error
from millstream.log.logfile import LogFile
from millstream.log.measures import Measures, SegmentMeasures
from millstream.log.stored import Segment, Stored
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
        measured = [
            _kept(stored, segment, self._measures.now(cursor, stored, segment))
            for segment in stored.segments
        ]
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


def _kept(stored: Stored, segment: Segment, measured: Measures) -> Measures:
    """What a segment has without the records before the first ones that are kept, which leave with
    the segment. Of one that compaction has been through it is not known how many these are."""
    starts = stored.starts
    if segment.generation or not any(segment.first[part] < starts[part] for part in measured):
        return measured
    found = {}
    for part, all_of_it in measured.items():
        gone = min(all_of_it.records, max(0, starts[part] - segment.first[part]))
        left = all_of_it.records - gone
        if left:
            size = all_of_it.bytes * left // all_of_it.records
            found[part] = replace(all_of_it, bytes=size, records=left)
    return found

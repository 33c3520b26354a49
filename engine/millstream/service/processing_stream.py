"""KSQL_PROCESSING_LOG: the processing log as a stream for queries.

Its records are on an internal topic of the service. So all instances write one log, the log
outlives the process, and push, pull and persistent queries read it like any other stream. Only the
engine writes to it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from millstream.catalog.catalog import Catalog
from millstream.catalog.source import Source
from millstream.log.log import AS_THE_CLUSTER, Appended, Topic
from millstream.model.batch import raw_batch
from millstream.model.errors import ConflictError, MillstreamError, UnavailableError
from millstream.model.problem import LATE, Problem
from millstream.model.settings import EngineSettings
from millstream.plan.define import create_source
from millstream.push.push_queries import PushQueries
from millstream.queries.processing_log import KEPT_MAX, ProcessingLog
from millstream.statements.inserting import Inserts
from millstream_parser import parse
from millstream_parser import statements as s

NAME = "KSQL_PROCESSING_LOG"
WRITTEN_MAX = 100_000
"""The entries of the topic: in a storm of errors, retention by age would come too late."""
_TRUNCATED_EVERY = WRITTEN_MAX // 10
_CAUSED = "CAUSE ARRAY<STRING>"
_STATEMENT = f"""\
CREATE SOURCE STREAM {NAME} (
  LOGGER STRING, LEVEL STRING, TIME BIGINT,
  MESSAGE STRUCT<
    TYPE INT,
    DESERIALIZATIONERROR STRUCT<
      TARGET STRING, ERRORMESSAGE STRING, RECORDB64 STRING, {_CAUSED}, `topic` STRING>,
    RECORDPROCESSINGERROR STRUCT<ERRORMESSAGE STRING, RECORD STRING, {_CAUSED}>,
    PRODUCTIONERROR STRUCT<ERRORMESSAGE STRING>,
    SERIALIZATIONERROR STRUCT<
      TARGET STRING, ERRORMESSAGE STRING, RECORD STRING, {_CAUSED}, `topic` STRING>,
    KAFKASTREAMSTHREADERROR STRUCT<ERRORMESSAGE STRING, THREADNAME STRING, {_CAUSED}>>)
WITH (KAFKA_TOPIC='{{topic}}', VALUE_FORMAT='JSON');"""
_TYPES = {"DESERIALIZATION": 0, "SERIALIZATION": 3, "STATE": 4, "COMMAND": 4}
"""The type of an entry by the kind of the problem. All other kinds have type 1, a record processing
error."""
_WARNINGS = frozenset({LATE, "NULL_KEY"})


def topic_of(settings: EngineSettings) -> str:
    """The topic of the stream."""
    return f"{settings.internal_prefix}processing_log"


def processing_stream(settings: EngineSettings) -> Source:
    """The definition of the stream, which every catalog of the engine has."""
    return _stream_over(topic_of(settings))


@cache
def _stream_over(topic: str) -> Source:
    text = _STATEMENT.format(topic=topic)
    (statement,) = parse(text)
    assert isinstance(statement, s.CreateSource)
    return create_source(statement, Catalog(), {}, text=text)


def open_processing_stream(
    processing_log: ProcessingLog, inserts: Inserts, push_queries: PushQueries
) -> None:
    """Create the stream's topic, and append entries of the processing log to it from now on."""
    registry = inserts.registry
    topic = topic_of(registry.settings)
    known = registry.log.topic(topic)
    retention = {"retention.ms": str(registry.settings.processing_retention_ms)}
    if known is None:
        config = {"cleanup.policy": "delete", **retention}
        with suppress(ConflictError):
            registry.log.create_topic(Topic(topic, 1, AS_THE_CLUSTER, config))
    elif known.config.get("retention.ms", retention["retention.ms"]) != retention["retention.ms"]:
        with suppress(UnavailableError):
            registry.log.configure_topic(topic, retention)
    stream = replace(processing_stream(registry.settings))
    catalog = replace(registry.catalog, system={stream.name: stream})
    registry.definitions = registry.definitions.with_catalog(catalog)
    processing_log.on_add = _Recorder(inserts, push_queries, topic).record


@dataclass(slots=True)
class _Recorder:
    """Appends entries to the topic, and keeps the newest `WRITTEN_MAX` there at most."""

    inserts: Inserts
    push_queries: PushQueries
    topic: str
    added: int = 0

    def record(self, query_id: str, problems: Sequence[Problem]) -> None:
        """Append the problems of a query. If the log cannot be written, the entries are only in
        memory, because a failed entry must not stop a query."""
        if not problems or self._reads(query_id):
            return
        time = self.inserts.clock()
        rows = self.inserts.registry.settings.processing_rows
        values = [_value(query_id, problem, time, rows) for problem in problems[-KEPT_MAX:]]
        batch = raw_batch([(None, value, time) for value in values])
        with suppress(MillstreamError):
            size = sum(map(len, values))
            self.inserts.writer.append([Appended(self.topic, 0, batch, len(values), size)])
            self._bound(len(values))

    def _reads(self, query_id: str) -> bool:
        """Whether a query reads the stream. Its problems are not appended, which would loop."""
        planned, shared_push = (
            self.inserts.registry.plans.get(query_id),
            self.push_queries.running.get(query_id),
        )
        if planned is not None:
            return any(source.topic == self.topic for source in planned.sources)
        subs = shared_push.topology.subtopologies if shared_push is not None else ()
        return any(item.topic == self.topic for sub in subs for item in sub.inputs)

    def _bound(self, count: int) -> None:
        self.added += count
        if self.added >= _TRUNCATED_EVERY:
            self.added = 0
            log = self.inserts.registry.log
            end = log.end_offset(self.topic, 0)
            log.truncate(self.topic, 0, max(0, end - WRITTEN_MAX))


def _value(query_id: str, problem: Problem, time: int, rows: bool) -> bytes:
    kind = _TYPES.get(problem.kind, 1)
    entry = {
        "logger": f"processing.{query_id}.{problem.kind}",
        "level": "WARN" if problem.kind in _WARNINGS else "ERROR",
        "time": time,
        "message": {"type": kind, **_error(kind, problem, rows)},
    }
    return json.dumps(entry, ensure_ascii=False).encode("utf-8", "replace")


def _error(kind: int, problem: Problem, rows: bool) -> dict[str, Any]:
    """The fields of the message for its type. They include the content of the record only with
    `rows`, because a user who may read the log may not be allowed to read the record's topic."""
    raw = problem.raw_key if problem.side == "key" else problem.raw_value
    encoded = None if raw is None or not rows else base64.b64encode(raw).decode()
    record = problem.row if rows else None
    place = f"{problem.topic}, partition {problem.partition}, offset {problem.offset}"
    cause = [place] if problem.topic else []
    about = {"errorMessage": problem.message, "cause": cause}
    match kind:
        case 0:
            target = {"target": problem.side or None, "recordB64": encoded, "topic": problem.topic}
            return {"deserializationError": {**about, **target}}
        case 3:
            target = {"target": problem.side or None, "record": record, "topic": problem.topic}
            return {"serializationError": {**about, **target}}
        case 4:
            return {"kafkaStreamsThreadError": {**about, "threadName": None}}
    return {"recordProcessingError": {**about, "record": record}}

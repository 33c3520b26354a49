"""One conformance case: statements, records in, records out, verdict."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from millstream.catalog.formats import INFERRING
from millstream.catalog.source import Format, Source
from millstream.formats.partition import partition_of
from millstream.log.log import Appended, Topic
from millstream.model.batch import raw_batch
from millstream.model.errors import MillstreamError
from millstream.model.schema import Column
from millstream.model.settings import EngineSettings
from millstream.query.session import Session
from millstream.runtime.spec import QueryState
from millstream.scripts.text import ParsedStatement, parse_text
from millstream.service.engine import Engine
from millstream.service.execution import execute_statement, open_engine
from millstream_cli.testing.wire import window_suffix
from millstream_parser import statements as s
from tests.conformance import registered
from tests.conformance.cases import Case, Record
from tests.conformance.functions import functions
from tests.conformance.judge import StopError, compare, judge_error, post_difference
from tests.conformance.wire import encode

PARTITIONS = 1
"""The suite processes records in one partition, whatever the statements declare."""
WRITER = "conformance"
CONFIGURATION = {
    "auto.offset.reset": "earliest",
    "millstream.emit.final.forgetful": "true",
    "millstream.input.order": "arrival",
}
"""The setup of the suite's own runner: its window stores expire unemitted rows, and each record is
processed completely before the next one, of any topic, arrives."""
BY_TIME = {**CONFIGURATION, "millstream.input.order": "time"}
"""The same over a log that has no order of arrival."""
IGNORED_PROPERTIES = {"use.exact.numeric.comparison"}
SETTINGS = EngineSettings(threads=1)


def in_memory() -> Engine:
    """An engine over a log in memory."""
    return open_engine(":memory:", SETTINGS, lambda: 0, functions())


def run_case(
    case: Case,
    batch: int | None,
    opened: Callable[[], Engine] = in_memory,
    configuration: Mapping[str, str] = CONFIGURATION,
) -> tuple[str, bool]:
    """Why the case failed ("" when it passed), and whether an expected message was seen."""
    records = case.inputs
    size = batch or max(1, len(records))
    pieces = [records[start : start + size] for start in range(0, len(records), size)]
    engine = opened()
    try:
        stopped = drive(case, pieces, engine, configuration)
        if case.expect == "error":
            return judge_error(case, stopped)
        return judged(case, stopped, engine), False
    finally:
        engine.close()


def drive(
    case: Case,
    pieces: Sequence[Sequence[Record]],
    engine: Engine,
    configuration: Mapping[str, str] = CONFIGURATION,
) -> StopError | None:
    """Run the statements of a case and append its input in pieces; returns the error that stopped
    it."""
    try:
        session, statements = prepare(case, engine, configuration)
        for statement in statements:
            execute(statement, session, engine)
        for records in pieces:
            append(records, engine)
            settle(engine)
        settle(engine)
    except StopError as stopped:
        return stopped
    return None


def judged(case: Case, stopped: StopError | None, engine: Engine) -> str:
    """In what the outcome differs from what a case that is no error case expects."""
    if stopped is not None:
        return f"{stopped.phase}: {stopped}"
    reason = compare(case, engine) if case.expect == "records" else ""
    return reason or post_difference(case, engine)


def prepare(
    case: Case, engine: Engine, configuration: Mapping[str, str] = CONFIGURATION
) -> tuple[Session, tuple[ParsedStatement, ...]]:
    """The session and the statements of a case; its topics are made."""
    session = Session(dict(configuration))
    try:
        for name, value in case.properties.items():
            if name not in IGNORED_PROPERTIES:
                session.set(name, value)
        parsed = tuple(parse_text("\n".join(case.statements), test_statements=False))
    except MillstreamError as error:
        raise StopError("parse", error) from error
    parsed = tuple(_over_listed(piece, case) for piece in parsed)
    _make_topics(case, [piece.statement for piece in parsed], engine, PARTITIONS)
    return session, parsed


def _over_listed(piece: ParsedStatement, case: Case) -> ParsedStatement:
    """A statement over a topic that the case lists, without its number of partitions: the suite has
    one, and does not compare them."""
    statement, listed = piece.statement, {topic["name"] for topic in case.raw.get("topics", [])}
    if not isinstance(statement, s.CreateSource) or statement.elements:
        return piece
    if dict(statement.properties).get("KAFKA_TOPIC") not in listed:
        return piece
    kept = tuple(item for item in statement.properties if item[0] != "PARTITIONS")
    return replace(piece, statement=replace(statement, properties=kept))


def make_topics(case: Case, engine: Engine, partitions: int) -> None:
    """Make the topics of a case whose statements are sent to a server; those that do not parse
    make none."""
    found = []
    for text in case.statements:
        with contextlib.suppress(MillstreamError):
            found += [piece.statement for piece in parse_text(text)]
    _make_topics(case, found, engine, partitions)


def execute(piece: ParsedStatement, session: Session, engine: Engine) -> None:
    """Execute one statement."""
    try:
        execute_statement(engine, piece, session)
    except MillstreamError as error:
        raise StopError("statement", error) from error


def _make_topics(
    case: Case, statements: list[s.Statement], engine: Engine, partitions: int
) -> None:
    """Topics exist before any statement runs; the partition counts matter to co-partitioning
    checks only, so they are kept where a case is about them."""
    counts: dict[str, int] = {}
    for topic in case.raw.get("topics", []):
        counts[topic["name"]] = topic.get("partitions", partitions)
    for statement in statements:
        if isinstance(statement, s.CreateSource) and statement.elements:
            given = dict(statement.properties)
            name, count = str(given.get("KAFKA_TOPIC", "")), given.get("PARTITIONS")
            if name:
                counts.setdefault(name, int(str(count)) if count is not None else partitions)
    for record in case.inputs + case.outputs:
        counts.setdefault(record["topic"], partitions)
    sinks = {sink.name for sink in statements if isinstance(sink, s.CreateAs)}
    read = {record["topic"] for record in case.inputs}
    if case.raw.get("needs_registry"):
        registered.register_schemas(case, statements, engine)
    for name, count in counts.items():
        if (name in sinks and name not in read) or engine.log.topic(name) is not None:
            continue
        engine.log.create_topic(Topic(name, count))


def append(records: Sequence[Record], engine: Engine) -> None:
    """Put input records on their topics."""
    writer = engine.log.writer(WRITER)
    for record in records:
        writer.append([_appended(record, engine)])


def settle(engine: Engine) -> None:
    """Let the engine do all there is to do; StopError when a query has stopped."""
    engine.drain()
    for status in engine.statuses():
        if status.state in (QueryState.ERROR, QueryState.FENCED):
            raise StopError("records", status.error)


def _appended(record: Record, engine: Engine) -> Appended[Any]:
    source = _source_of(record["topic"], engine)
    topic = record["topic"]
    key = _encoded(record["key"], source.key_format, source.schema.key, f"{topic}-key", engine)
    if record.get("window") and key is not None:
        key += window_suffix(record["window"])
    columns = source.schema.value
    value = _encoded(record["value"], source.value_format, columns, f"{topic}-value", engine)
    headers = [
        {
            "key": header["key"],
            "value": None if header["value"] is None else base64.b64decode(header["value"]),
        }
        for header in record.get("headers") or []
    ]
    rows = raw_batch([(key, value, record["ts"])], [headers or None])
    return Appended(record["topic"], _partition(record["topic"], key, engine), rows, 1, 100)


def _encoded(
    value: Any, form: Format, columns: tuple[Column, ...], subject: str, engine: Engine
) -> bytes | None:
    if value is None or form.name not in INFERRING:
        return encode(value, form, columns)
    return registered.encode(value, form, subject, registered.registry_of(engine))


def _partition(topic: str, key: bytes | None, engine: Engine) -> int:
    """Where a producer would put it: tables of several partitions meet others by their keys."""
    described = engine.log.topic(topic)
    if described is None or key is None:
        return 0
    return int(partition_of(pa.array([key], pa.binary()), described.partitions)[0])


def _source_of(topic: str, engine: Engine) -> Source:
    found = engine.catalog.over_topic(topic)
    if not found:
        raise StopError("statement", f"no source reads topic {topic}")
    return next((source for source in found if source.query_id is None), found[0])

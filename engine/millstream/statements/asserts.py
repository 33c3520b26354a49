"""Executes ASSERT, which fails when its condition does not hold (reference: statements, 16).

ASSERT VALUES reads a topic record by record. The session keeps the position after the last match,
and its next ASSERT VALUES continues there. If the topic has several partitions, the next record of
any partition may match.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import fields, replace

import pyarrow as pa

from millstream.catalog import wordings as catalog_wordings
from millstream.catalog.properties import Form, Properties, read_properties
from millstream.catalog.source import Source
from millstream.cluster.scatter_gather import pull_schema
from millstream.formats.codec import DecodeSpec, decode
from millstream.formats.decoder import decode_spec
from millstream.model.batch import PART, ROWTIME
from millstream.model.errors import StatementError
from millstream.model.physical import physical_names
from millstream.model.schema_text import Schemas
from millstream.plan.define import declared_schema
from millstream.queries.draining import drain
from millstream.queries.registry import QueryRegistry
from millstream.query.results import Done
from millstream.query.session import Session
from millstream.statements import wordings
from millstream.statements.constants import constant_row
from millstream.statements.inserting import target_columns
from millstream_parser import statements as s

AssertStatement = s.AssertTopic | s.AssertSchema | s.AssertValues | s.AssertSource
FAILURE_CODE = "E-ASSERT"
POLL_MS = 100
TIMEOUT = "ksql.assert.topic.default.timeout.ms"
SCHEMA_TIMEOUT = "ksql.assert.schema.default.timeout.ms"


def check(
    statement: AssertStatement, script: str, registry: QueryRegistry, session: Session
) -> Done:
    """Check an assertion; raises StatementError with code E-ASSERT if it does not hold."""
    match statement:
        case s.AssertTopic(timeout=timeout):
            default = int(session.property(TIMEOUT))
            limit = default if timeout is None else timeout.milliseconds
            return _within_time_limit(lambda: _topic(statement, registry), limit)
        case s.AssertSchema():
            if registry.schemas is None:
                raise catalog_wordings.REGISTRY_NEEDED(what="ASSERT SCHEMA", code="E-NO-REGISTRY")
            schemas, default = registry.schemas, int(session.property(SCHEMA_TIMEOUT))
            limit = default if statement.timeout is None else statement.timeout.milliseconds
            return _within_time_limit(lambda: _schema(statement, schemas), limit)
        case s.AssertSource():
            return _source(statement, registry)
        case s.AssertValues():
            return _values(statement, script, registry, session)


def _within_time_limit(assertion: Callable[[], Done], limit_ms: int) -> Done:
    """Retry an assertion until it holds or the time limit is over. Only E-ASSERT is retried; other
    errors are raised at once."""
    pause = threading.Event()
    for _ in range(limit_ms // POLL_MS):
        try:
            return assertion()
        except StatementError as error:
            if error.code != FAILURE_CODE:
                raise
        pause.wait(POLL_MS / 1000)
    return assertion()


def _topic(statement: s.AssertTopic, registry: QueryRegistry) -> Done:
    topic = registry.log.topic(statement.topic)
    if not statement.exists:
        if topic is not None:
            raise _failed(f"topic {statement.topic} exists")
        return Done(f"Topic {statement.topic} does not exist")
    for name, _ in statement.properties:
        if name not in ("PARTITIONS", "REPLICAS"):
            raise wordings.ASSERTED_PROPERTY(
                name=name, hint="Only PARTITIONS and REPLICAS can be asserted."
            )
    if topic is None:
        raise _failed(f"topic {statement.topic} does not exist")
    actual = {"PARTITIONS": topic.partitions, "REPLICAS": topic.replicas}
    for name, value in statement.properties:
        if str(value) != str(actual[name]):
            raise _failed(f"topic {statement.topic} has {name} {actual[name]}, expected {value}")
    return Done(f"Topic {statement.topic} exists")


def _schema(statement: s.AssertSchema, schemas: Schemas) -> Done:
    subject, schema_id = statement.subject, statement.schema_id
    words = [] if subject is None else [f"subject {subject}"]
    words += [] if schema_id is None else [f"id {schema_id}"]
    named = f"a schema of {' and '.join(words)}"
    found = schemas.has(subject, schema_id)
    if found is not statement.exists:
        raise _failed(f"{named} {'exists' if found else 'does not exist'}")
    return Done(f"{named.capitalize()} {'exists' if found else 'does not exist'}")


def _source(statement: s.AssertSource, registry: QueryRegistry) -> Done:
    source = registry.catalog.source(statement.name)
    if source.kind.value != statement.kind:
        raise _failed(f"{statement.name} is a {source.kind.value}, not a {statement.kind}")
    if statement.elements:
        wanted = declared_schema(statement.elements, registry.catalog.types)
        if wanted != source.schema:
            raise _failed(f"{statement.name} has the columns {source.schema}, expected {wanted}")
    given, actual = read_properties(statement.properties, Form.CREATE), _properties(source)
    for item in fields(Properties):
        expected, found = getattr(given, item.name), getattr(actual, item.name)
        if expected not in (None, {}, found):
            raise _failed(
                f"{statement.name} has the {item.name.replace('_', ' ')} {found}, "
                f"expected {expected}"
            )
    return Done(f"{statement.kind.capitalize()} {statement.name} is as asserted")


def _properties(source: Source) -> Properties:
    """The properties of a WITH clause that describes the source."""
    return Properties(
        topic=source.topic,
        key_format=source.key_format.name,
        value_format=source.value_format.name,
        key_settings=source.key_format.properties,
        value_settings=source.value_format.properties,
        wrap=source.value_format.wrap,
        timestamp=source.timestamp.name if source.timestamp else None,
        timestamp_format=source.timestamp.format if source.timestamp else None,
        window=source.window,
    )


def _values(
    statement: s.AssertValues, script: str, registry: QueryRegistry, session: Session
) -> Done:
    source = registry.catalog.source(statement.source)
    names = statement.columns or tuple(column.name for column in source.schema.key)
    listed = names if statement.tombstone else statement.columns
    columns = target_columns(source, listed, len(statement.values), "ASSERT VALUES")
    row = constant_row(columns, statement.values, script, registry.catalog.types, registry)
    expected = {c.name: row.column(i)[0].as_py() for i, c in enumerate(columns)}
    drain(registry)
    mismatches = []
    topic = registry.log.topic(source.topic)
    for partition in range(topic.partitions if topic else 0):
        topic_partition = (source.topic, partition)
        position = session.asserted.get(
            topic_partition, registry.log.start_offset(*topic_partition)
        )
        fetched = registry.log.read(*topic_partition, position, 1)
        if not fetched.count:
            continue
        actual = _record(source, partition, fetched.batch, registry)
        deleted = fetched.batch["value"][0].as_py() is None
        if deleted is statement.tombstone and expected == {n: actual[n] for n in expected}:
            session.asserted[topic_partition] = fetched.next_offset
            return Done(f"The next record of {source.name} is as asserted")
        mismatches.append(f"{actual}{' without a value' if deleted else ''}")
    expectation = f"expected {expected}{' without a value' if statement.tombstone else ''}"
    raise _failed(
        f"{source.name}: {expectation}, got {' or '.join(mismatches) or 'no further record'}"
    )


def _record(
    source: Source, partition: int, raw: pa.Table, registry: QueryRegistry
) -> dict[str, object]:
    """The columns of a record by name, including ROWTIME."""
    cursor = registry.store.cursor()
    try:
        with_partition = raw.append_column(PART, pa.array([partition], pa.int32()))
        decoded = decode(
            cursor, with_partition, _record_spec(source, registry.schemas), source.topic
        )
    finally:
        cursor.close()
    if decoded.table.num_rows == 0:
        raise _failed(f"{source.name}: the next record cannot be read")
    names = pull_schema(source).names
    row = {
        name: decoded.table.column(physical)[0].as_py()
        for name, physical in zip(names, physical_names(names), strict=True)
    }
    return {**row, "ROWTIME": decoded.table.column(ROWTIME)[0].as_py()}


def _failed(reason: str) -> StatementError:
    return wordings.ASSERTION_FAILED(reason=reason, code=FAILURE_CODE)


def _record_spec(source: Source, schemas: Schemas | None) -> DecodeSpec:
    """The decode specification for the key and value of a source's records."""
    schema = pull_schema(source)
    columns = tuple(zip(physical_names(schema.names), schema.names, strict=True))
    return replace(decode_spec(source, columns, schemas), is_table=False)

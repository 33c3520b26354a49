"""INSERT INTO … VALUES and COPY … FROM: append the rows of a client to a topic."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.catalog.catalog import Catalog
from millstream.catalog.source import Source
from millstream.ddl.topics import refuse_internal
from millstream.formats.codec import Encoded, EncodeSpec, encode
from millstream.formats.partition import partition_by_column, partition_of
from millstream.log.log import Appended
from millstream.log.reopening import ReopeningWriter
from millstream.model import refusals
from millstream.model.batch import HEADER_TYPE, RAW_SCHEMA
from millstream.model.errors import MillstreamError, RecordError, StatementError
from millstream.model.event_time import LATEST
from millstream.model.nearest import did_you_mean
from millstream.model.physical import arrow_type, physical_names
from millstream.model.schema import Column, Role, Schema, SourceKind
from millstream.model.settings import EngineSettings
from millstream.model.types import BIGINT
from millstream.plan.places import placed
from millstream.queries.registry import QueryRegistry
from millstream.query.results import Done
from millstream.query.session import Session
from millstream.statements import wordings
from millstream.statements.constants import constant_row
from millstream.statements.loading import load_batches
from millstream.statements.local_file import files_of
from millstream_parser.statements import CopyFrom, InsertValues, Tree

_ROWTIME = Column("ROWTIME", BIGINT)
_REJECTS_SHOWN = 5
_OPTIONS = ("FORMAT", "NULLSTR", "ROWTIME")


@dataclass(frozen=True, slots=True)
class Inserts:
    """The sources that take rows, and the writer that appends them. `clock`: the time of day in
    ms, which is the time of a row without ROWTIME."""

    registry: QueryRegistry
    writer: ReopeningWriter[pa.Table]
    clock: Callable[[], int]


def insert_values(statement: InsertValues, script: str, inserts: Inserts, session: Session) -> Done:
    """Execute INSERT INTO … VALUES. The records are durable when this returns: all, or none."""
    rows = rows_to_insert(statement, script, inserts.registry.catalog, inserts, session)
    append_rows(rows, inserts)
    session.inserted = True
    count = len(rows.times)
    return Done("1 row inserted" if count == 1 else f"{count} rows inserted")


@dataclass(frozen=True, slots=True)
class InsertedRows:
    """Records to append to one source: their values by column, and their timestamps in ms."""

    source: Source
    values: dict[str, pa.ChunkedArray]
    times: tuple[int, ...]


def append_rows(rows: InsertedRows, inserts: Inserts) -> None:
    """Append rows in one transaction."""
    append(rows.source, rows.values, pa.array(rows.times, pa.int64()), inserts)


def together(inserted: Sequence[InsertedRows]) -> InsertedRows:
    """The rows of executions of one statement, which name the same columns."""
    first = inserted[0]
    values = {
        name: pa.chunked_array([chunk for each in inserted for chunk in each.values[name].chunks])
        for name in first.values
    }
    return InsertedRows(
        first.source, values, tuple(time for each in inserted for time in each.times)
    )


def rows_to_insert(
    statement: InsertValues, script: str, catalog: Catalog, inserts: Inserts, session: Session
) -> InsertedRows:
    """The records that INSERT INTO … VALUES appends to a stream or table of a catalog. Raises
    StatementError if the source accepts no inserts, or a value does not fit its column."""
    if not session.flag("ksql.insert.into.values.enabled"):
        raise wordings.INSERTS_DISABLED()
    source = catalog.find(statement.target)
    if source is None:
        raise wordings.INSERT_INTO_UNKNOWN(
            name=statement.target, hint=catalog.spelling_hint(statement.target)
        )
    refuse_insert(source, "insert values into", catalog, inserts.registry.settings)
    tables, times, now = [], [], inserts.clock()
    columns: list[Column] = []
    for trees in statement.rows:
        columns = target_columns(source, statement.columns, len(trees), "INSERT INTO … VALUES")
        row = constant_row(columns, trees, script, catalog.types, inserts.registry)
        times.append(_checked_time(source, columns, trees, row, script, now))
        tables.append(row)
    whole = pa.concat_tables(tables)
    values = dict(zip((column.name for column in columns), whole.columns, strict=True))
    values.pop("ROWTIME", None)
    return InsertedRows(source, values, tuple(times))


def _checked_time(
    source: Source,
    columns: Sequence[Column],
    trees: Sequence[Tree],
    row: pa.Table,
    script: str,
    now: int,
) -> int:
    """The timestamp of a row. Raises StatementError if it is none, or if a key is missing."""
    names = [column.name for column in columns]
    present = {name: values[0] for name, values in zip(names, row.columns, strict=True)}
    if source.kind is SourceKind.TABLE:
        for key in source.schema.key:
            if key.name not in present or not present[key.name].is_valid:
                raise wordings.PRIMARY_KEY_NOT_INSERTED(source=source.name, key=key.name)
    given = present["ROWTIME"].as_py() if "ROWTIME" in present else None
    rowtime = now if given is None else int(given)
    if not 0 <= rowtime <= LATEST:
        tree = trees[names.index("ROWTIME")] if "ROWTIME" in names else None
        with placed(tree, script):
            raise rowtime_error(rowtime)
    return rowtime


def rowtime_error(rowtime: int) -> StatementError:
    """The error for a ROWTIME outside the range of record timestamps."""
    if rowtime < 0:
        return wordings.ROWTIME_NEGATIVE(rowtime=rowtime)
    return wordings.ROWTIME_TOO_LATE(latest=LATEST, rowtime=rowtime)


def copy_from(statement: CopyFrom, inserts: Inserts, session: Session) -> Done:
    """Execute COPY … FROM local files. Rows that cannot be read are skipped; the result gives
    their number, and the reasons for the first of them. An error says what was copied before."""
    if not session.local:
        raise wordings.COPY_OVER_NETWORK()
    source = inserts.registry.catalog.source(statement.target)
    refuse_insert(source, "copy into", inserts.registry.catalog, inserts.registry.settings)
    options = {name: str(value) for name, value in statement.properties}
    unknown = sorted(set(options) - set(_OPTIONS))
    if unknown:
        raise wordings.COPY_PROPERTY(
            unknown=unknown[0], hint=f"Its properties are {', '.join(_OPTIONS)}."
        )
    rowtime = _rowtime(options["ROWTIME"]) if "ROWTIME" in options else inserts.clock()
    schema, file_format = insertable_schema(source), options.get("FORMAT")
    null, paths = options.get("NULLSTR", ""), files_of(statement.path)
    copied = before = 0
    rejects: list[str] = []
    for number, path in enumerate(paths):
        try:
            for loaded in load_batches(path, schema, format=file_format, null=null):
                _append_loaded(loaded.table, source, rowtime, inserts)
                copied += loaded.table.num_rows
                session.inserted = True
                about = f"{path}, " if len(paths) > 1 else ""
                rejects += (f"{about}{reject}" for reject in loaded.rejects)
                if session.on_copy_progress is not None:
                    session.on_copy_progress(path, copied - before)
        except MillstreamError as error:
            if number:
                told = f"{before} rows of the {number} files before it are copied."
                error.detail = "\n".join(filter(None, (error.detail, told)))
            raise
        before = copied
    of_files = f" from {len(paths)} files" if len(paths) > 1 else ""
    message = f"{copied} rows copied into {source.name}{of_files}"
    if rejects:
        shown = "; ".join(rejects[:_REJECTS_SHOWN])
        message += f"; {len(rejects)} rows could not be read: {shown}"
    return Done(message)


def _append_loaded(table: pa.Table, source: Source, rowtime: int, inserts: Inserts) -> None:
    if table.num_rows:
        columns = {name: table.column(name) for name in table.column_names}
        append(source, columns, pa.array(np.full(table.num_rows, rowtime), pa.int64()), inserts)


def _rowtime(text: str) -> int:
    """Parse ms since the epoch, or ISO-8601 text, which is UTC unless it has an offset."""
    if text.lstrip("-").isdigit():
        return int(text)
    try:
        time = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise wordings.ROWTIME_UNREADABLE(
            text=text, hint="Write it like 2013-01-01T00:00:00."
        ) from None
    aware = time if time.tzinfo else time.replace(tzinfo=datetime.UTC)
    return round(aware.timestamp() * 1000)


def append(
    source: Source, columns: Mapping[str, pa.Array], time: pa.Array, inserts: Inserts
) -> int:
    """Encode rows in the source's formats, and append each to the partition of its key.

    `columns` are by column name; missing ones are NULL. Returns the number of records.
    """
    inserts.writer.append(encoded_records(source, columns, time, inserts))
    return len(time)


def encoded_records(
    source: Source,
    columns: Mapping[str, pa.Array],
    time: pa.Array,
    inserts: Inserts,
    first: int | None = None,
) -> list[Appended[pa.Table]]:
    """The records of rows, each for the partition of its key; see `append`. `first`: the number of
    the first row, if errors say which row they are about."""
    count = len(time)
    encoded = encode_rows(source, columns, count, inserts.registry, first)
    topic = inserts.registry.log.topic(source.topic)
    if topic is None:
        raise refusals.UNKNOWN_TOPIC(topic=source.topic)
    raw = pa.table(
        [
            pa.array(np.zeros(count, np.int64)),
            time,
            encoded.key,
            encoded.value,
            pa.nulls(count, HEADER_TYPE),
        ],
        schema=RAW_SCHEMA,
    )
    if source.partition_column is None:
        partition = partition_of(encoded.key, topic.partitions)
    else:
        chosen = columns.get(source.partition_column, pa.nulls(count, pa.int32()))
        partition = partition_by_column(chosen, topic.partitions)
    return _split_by_partition(raw, partition, source.topic, topic.partitions)


def encode_rows(
    source: Source,
    columns: Mapping[str, pa.Array],
    count: int,
    registry: QueryRegistry,
    first: int | None = None,
) -> Encoded:
    """The keys and values of rows in the source's formats. `columns`: see `append`; `first`: see
    `encoded_records`. Raises RecordError for a row that cannot be written."""
    schema = insertable_schema(source)
    names = physical_names(schema.names)
    table = pa.table(
        [
            columns.get(column.name, pa.nulls(count, arrow_type(column.type)))
            for column in schema.columns
        ],
        names=list(names),
    )
    cursor = registry.store.cursor()
    try:
        spec = EncodeSpec(
            source.key_format,
            source.value_format,
            schema,
            schemas=registry.schemas,
            source=source.name,
            inserting=True,
        )
        encoded = encode(cursor, table, spec, source.topic)
        if encoded.problems:
            # The problems of keys come before those of values, whichever their rows are.
            row = pc.index(encoded.keep, False).as_py()
            (problem, *_) = encode(cursor, table.slice(row, 1), spec, source.topic).problems
            named = "A row" if first is None else f"Row {first + row}"
            raise RecordError(f"{named} cannot be written to {source.name}: {problem.message}")
    finally:
        cursor.close()
    return encoded


def _split_by_partition(
    raw: pa.Table, partition_of_row: np.ndarray[Any, Any], topic: str, partitions: int
) -> list[Appended[pa.Table]]:
    """Split records by partition. Those of -1, which have none, are spread over all partitions."""
    if partitions == 1:
        return [Appended(topic, 0, raw, raw.num_rows, raw.nbytes)]
    times = raw["timestamp"].to_numpy()
    partition_of_row = np.where(
        partition_of_row < 0,
        (np.arange(len(partition_of_row)) + times) % partitions,
        partition_of_row,
    )
    appends = []
    for partition in np.unique(partition_of_row):
        records = raw.filter(pc.equal(pa.array(partition_of_row), int(partition)))
        appends.append(Appended(topic, int(partition), records, records.num_rows, records.nbytes))
    return appends


def insertable_schema(source: Source) -> Schema:
    """The columns of a source that a client can insert: all but the headers."""
    return Schema(
        tuple(column for column in source.schema.columns if column.role is not Role.HEADERS)
    )


def refuse_insert(source: Source, action: str, catalog: Catalog, settings: EngineSettings) -> None:
    """Raise StatementError if clients may not append rows to a source. `action` is the verb of the
    error message."""
    noun = source.kind.value.lower()
    if source.kind is SourceKind.TABLE and source.query_id in catalog.queries:
        raise wordings.INSERT_INTO_COMPUTED(
            action=action,
            noun=noun,
            source=source.name,
            query_id=source.query_id,
            hint="Insert into its sources, or terminate the query first.",
        )
    if source.read_only:
        raise wordings.INSERT_INTO_READ_ONLY(action=action, noun=noun, source=source.name)
    if source.window is not None:
        raise wordings.INSERT_INTO_WINDOWED(
            action=action, hint=f"The keys of {source.name} are windowed."
        )
    refuse_internal(settings, source.topic, action)


def target_columns(
    source: Source, names: Sequence[str], values: int, statement: str
) -> list[Column]:
    """The columns of a column list, which may include ROWTIME; all insertable columns if the list
    is empty. Raises StatementError unless there are as many as `values`."""
    schema = insertable_schema(source)
    read_only = {column.name for column in source.schema.headers}.intersection(names)
    if read_only:
        listed = dict.fromkeys(name for name in names if name in read_only)
        raise wordings.INSERTED_HEADER(names=", ".join(listed))
    columns = [_target_column(name, source, schema) for name in names] or list(schema.columns)
    if len(set(names)) < len(names):
        raise wordings.INSERTED_TWICE(statement=statement)
    if len(columns) != values:
        raise refusals.VALUE_COUNT(
            source=source.name,
            columns=", ".join(f"`{column.name}`" for column in columns),
            count=values,
        )
    return columns


def _target_column(name: str, source: Source, schema: Schema) -> Column:
    if name == "ROWTIME":
        return _ROWTIME
    if name in ("ROWPARTITION", "ROWOFFSET"):
        raise wordings.INSERTED_PSEUDO_COLUMN(name=name, hint="The log assigns it.")
    column = schema.find(name)
    if column is None:
        raise refusals.UNKNOWN_INSERT_COLUMN(
            column=name,
            hint=did_you_mean(name, schema.names, f"The columns are {', '.join(schema.names)}."),
        )
    return column

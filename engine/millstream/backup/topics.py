"""Topics as Parquet files: a row for each record, as it is on the log."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from millstream.log.log import Appended, Log, Topic
from millstream.model.batch import RAW_SCHEMA
from millstream.model.clock import now_ms
from millstream.model.errors import StatementError, UnavailableError

_RECORDS = 65_536
PARTITIONS_MAX = 10_000
SCHEMA = pa.schema(
    [
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("ms", "UTC")),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", RAW_SCHEMA.field("headers").type),
    ]
)
"""The columns of a file. Key and value are the bytes of the record, whatever its format."""


def export_topic(log: Log[pa.Table], name: str, path: str | Path) -> int:
    """Write the records that a topic has now to a new Parquet file; returns how many they are.
    Raises StatementError if there is no topic or there is a file."""
    topic = log.topic(name)
    if topic is None:
        raise StatementError(
            f"There is no topic '{name}'.",
            hint=f"There are {', '.join(each.name for each in log.topics())}.",
            code="E-NO-TOPIC",
        )
    target = Path(path)
    if target.exists():
        raise StatementError(f"'{path}' is there already.", hint="Name a new file.")
    unfinished = target.with_name(f"{target.name}.part")
    places = [(name, part) for part in range(topic.partitions)]
    ends = log.end_offsets(places)
    count = 0
    try:
        with pq.ParquetWriter(unfinished, SCHEMA, compression="zstd") as writer:
            for place in places:
                at, end = log.start_offset(*place), ends.get(place) or log.end_offset(*place)
                while at < end:
                    fetched = log.read(*place, at, min(_RECORDS, end - at))
                    rows = fetched.batch
                    rows = rows.filter(pc.less(rows["offset"], end))
                    writer.write_table(_row_columns(rows, place[1]))
                    count += rows.num_rows
                    at = fetched.next_offset
        unfinished.replace(target)
    except OSError as error:
        raise _unwritten(path, error) from error
    finally:
        unfinished.unlink(missing_ok=True)
    return count


def _unwritten(path: str | Path, error: OSError) -> UnavailableError:
    return UnavailableError(f"Could not write '{path}'.", detail=str(error), code="E-DISK-IO")


def _row_columns(records: pa.Table, partition: int) -> pa.Table:
    parts = pa.repeat(pa.scalar(partition, pa.int32()), records.num_rows)
    columns = [parts, *(records[name] for name in SCHEMA.names[1:])]
    times = columns[2].cast(pa.int64()).cast(SCHEMA.field("timestamp").type)
    columns[2] = times
    return pa.table(columns, schema=SCHEMA)


def import_topic(
    log: Log[pa.Table], name: str, path: str | Path, partitions: int | None = None
) -> int:
    """Append the records of a Parquet file, of `export_topic` or with some of its columns, to a
    topic; returns how many they are. The topic is created if it does not exist, with as many
    partitions as the file's records have, or `partitions`.

    They get new offsets and keep their partition (0 if the file has none) and time (now, if there
    is none). Batches of records are appended one after another: if this raises, the first ones may
    be there.
    """
    try:
        source = pq.ParquetFile(path)
    except (OSError, pa.ArrowException) as error:
        raise StatementError(f"'{path}' is no Parquet file.", detail=str(error)) from error
    with source:
        _check_columns(path, source.schema_arrow)
        needed = _partitions(source)
        topic = log.topic(name)
        if topic is None:
            topic = Topic(name, partitions or needed)
            log.create_topic(topic)
        if topic.partitions < needed:
            raise StatementError(
                f"The records of '{path}' are in {needed} partitions, topic '{name}' has"
                f" {topic.partitions}."
            )
        count = 0
        for batch in source.iter_batches(_RECORDS):
            rows = pa.Table.from_batches([batch])
            log.send(_appended(name, rows))
            count += rows.num_rows
        return count


def _check_columns(path: str | Path, schema: pa.Schema) -> None:
    if "value" not in schema.names:
        raise StatementError(
            f"'{path}' has no column 'value'.",
            hint=f"A file of records has {', '.join(SCHEMA.names)}; all but value may be missing.",
        )
    for field in SCHEMA:
        if field.name in schema.names and not _fits(schema.field(field.name).type, field.type):
            raise StatementError(
                f"Column '{field.name}' of '{path}' is {schema.field(field.name).type}, not"
                f" {field.type}."
            )


def _fits(found: pa.DataType, wanted: pa.DataType) -> bool:
    if pa.types.is_timestamp(wanted):
        return bool(pa.types.is_timestamp(found))
    if pa.types.is_binary(wanted):
        text = pa.types.is_string(found) or pa.types.is_large_string(found)
        return bool(text or pa.types.is_binary(found) or pa.types.is_large_binary(found))
    if pa.types.is_integer(wanted):
        return bool(pa.types.is_integer(found))
    return bool(found.equals(wanted) or pa.types.is_null(found))


def _partitions(source: pq.ParquetFile) -> int:
    """How many partitions the records of a file need."""
    if "partition" not in source.schema_arrow.names:
        return 1
    most = 0
    for batch in source.iter_batches(_RECORDS, columns=["partition"]):
        parts = batch["partition"]
        if parts.null_count or (len(parts) and pc.min(parts).as_py() < 0):
            raise StatementError("A column 'partition' has numbers from 0 on, and no NULL.")
        most = max(most, pc.max(parts).as_py() if len(parts) else 0)
    if most >= PARTITIONS_MAX:
        raise StatementError(f"A topic has at most {PARTITIONS_MAX} partitions, not {most + 1}.")
    return most + 1


def _appended(name: str, rows: pa.Table) -> list[Appended[pa.Table]]:
    """The records of one batch by partition, each in the order of the file."""
    count = rows.num_rows
    nothing = pa.nulls(count)
    given = {
        field: rows[field] if field in rows.column_names else nothing for field in SCHEMA.names
    }
    times = given["timestamp"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
    records = pa.table(
        [
            pa.array(np.arange(count, dtype=np.int64)),
            pc.fill_null(times, now_ms()),
            *(given[column].cast(RAW_SCHEMA.field(column).type) for column in RAW_SCHEMA.names[2:]),
        ],
        schema=RAW_SCHEMA,
    )
    if "partition" not in rows.column_names:
        return [Appended(name, 0, records, count)]
    parts = given["partition"]
    found = []
    for part in sorted(pc.unique(parts).to_pylist()):
        own = records.filter(pc.equal(parts, part))
        found.append(Appended(name, part, own, own.num_rows))
    return found

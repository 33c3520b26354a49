"""Streams and tables as a data source of PySpark, for use in Spark SQL.

    spark.read.format("millstream").option("path", "shop.db").option("stream", "orders").load()
    shop = spark.read.format("millstream").options(kafka="broker:9092", service_id="shop")
    shop.option("table", "spending").load()

Spark creates a task for each sealed segment, or for each million Kafka records; for a table, for
each partition. Its Python worker decodes the records to Arrow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from millstream.catalog.source import Source
from millstream.formats.codec import OFFSET, WINDOW_BOUNDS
from millstream.formats.decoder import decode_spec, decoder
from millstream.history.latest import RAW_KEY, last_rows
from millstream.history.listed import shared_on_kafka
from millstream.history.shared import Shared, shared
from millstream.history.splits import Split
from millstream.model.errors import RecordError, StatementError
from millstream.model.physical import arrow_type, physical_names
from millstream.model.schema import SourceKind

NAME = "millstream"
FAIL, DROP = "FAILFAST", "DROPMALFORMED"
"""Spark's modes for invalid records."""
KAFKA = "kafka."
"""The prefix of settings of the Kafka client."""
BOUNDS = dict.fromkeys(WINDOW_BOUNDS, pa.int64())
PSEUDO = {"ROWTIME": pa.int64(), "ROWPARTITION": pa.int32(), "ROWOFFSET": pa.int64()}


class MillstreamSource(DataSource):
    """Reads one stream or table. Options: `path` of the database file or of its folder of
    segments, or `kafka` (host:port), `service_id` and `kafka.<setting>` for each further setting of
    the client; `stream` or `table`; `mode`, DROPMALFORMED, as queries do (the default), or
    FAILFAST."""

    @classmethod
    def name(cls) -> str:
        """The name to pass to `format`."""
        return NAME

    def schema(self) -> StructType:
        """The columns of the source, then those of `pseudo_columns`."""
        return from_arrow_schema(arrow_schema(self._shared().source))

    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader of all rows."""
        mode = self.options.get("mode", DROP).upper()
        if mode not in (FAIL, DROP):
            raise StatementError(f"'{mode}' is no mode.", hint=f"There are {DROP} and {FAIL}.")
        return SourceReader(self._shared(), fail=mode == FAIL)

    def _shared(self) -> Shared:
        kind, name = self._source()
        servers = self.options.get("kafka")
        if servers is None:
            return shared(self._option("path"), kind, name)
        service_id = self.options.get("service_id", "default")
        settings = {
            option.removeprefix(KAFKA): value
            for option, value in self.options.items()
            if option.startswith(KAFKA)
        }
        return shared_on_kafka(servers, service_id, settings, kind, name)

    def _source(self) -> tuple[SourceKind, str]:
        table = self.options.get("table")
        if table is None:
            return SourceKind.STREAM, self._option("stream")
        if "stream" in self.options:
            raise StatementError("Both a stream and a table are given.", hint="Give one of them.")
        return SourceKind.TABLE, str(table)

    def _option(self, name: str) -> str:
        value = self.options.get(name)
        if value is None:
            raise StatementError(
                f"The option '{name}' is missing.",
                hint=f'.option("path", "<database>").option("stream", "<name>") of format {NAME},'
                " or table in place of stream, and kafka and service_id in place of path.",
            )
        return str(value)


class SourceReader(DataSourceReader):
    """Reads the splits of a source, each in a task."""

    def __init__(self, source: Shared, *, fail: bool) -> None:
        self.source = source
        self.fail = fail

    def partitions(self) -> list[InputPartition]:
        """The splits, as Spark's input partitions."""
        return [InputPartition(split) for split in self.source.splits]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a split. Raises RecordError for an invalid record in FAILFAST mode."""
        split: Split = partition.value
        schema = arrow_schema(self.source.source)
        pieces = self._pieces(split)
        if self.source.source.kind is SourceKind.TABLE:
            pieces = last_rows(pieces)
        for rows in pieces:
            yield from rows.select(schema.names).cast(schema).combine_chunks().to_batches()

    def _pieces(self, split: Split) -> Iterator[pa.Table]:
        """Decoded rows with the keys of their records."""
        source = self.source.source
        spec = decode_spec(source, _columns(source))
        with decoder(spec, split.topic) as decoded:
            for records, _ in self.source.reader.pieces(split):
                found = decoded(records, split.partition)
                if found.problems and self.fail:
                    raise RecordError(found.problems[0].message)
                at = np.searchsorted(records["offset"].to_numpy(), found.table[OFFSET].to_numpy())
                yield found.table.append_column(RAW_KEY, records["key"].take(pa.array(at)))


def pseudo_columns(source: Source) -> Mapping[str, pa.DataType]:
    """The columns besides a source's own."""
    return PSEUDO if source.window is None else {**BOUNDS, **PSEUDO}


def arrow_schema(source: Source) -> pa.Schema:
    """The columns that a source has in Spark: a TIMESTAMP is an instant there too."""
    columns = source.schema.columns
    names = physical_names(source.schema.names)
    fields = [
        pa.field(name, _instants(arrow_type(column.type)))
        for name, column in zip(names, columns, strict=True)
    ]
    return pa.schema([*fields, *(pa.field(*each) for each in pseudo_columns(source).items())])


def _columns(source: Source) -> tuple[tuple[str, str], ...]:
    names = source.schema.names
    own = zip(physical_names(names), names, strict=True)
    return (*own, *((name, name) for name in pseudo_columns(source)))


def _instants(kind: pa.DataType) -> pa.DataType:
    """An Arrow type with a zone for all its timestamps."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC")
    if pa.types.is_list(kind):
        return pa.list_(_instants(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(_instants(kind.key_type), _instants(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, _instants(f.type)) for f in kind])
    return kind

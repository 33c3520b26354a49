"""Streams as a data source of PySpark, for those who go on in Spark SQL.

    spark.read.format("millstream").option("path", "shop.db").option("stream", "orders").load()

Spark makes a task of each sealed segment; its Python worker decodes the records to Arrow.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from millstream.formats.decoder import decode_spec, decoder
from millstream.history.shared import Shared, shared
from millstream.history.splits import Split
from millstream.model.errors import RecordError, StatementError
from millstream.model.physical import arrow_type, physical_names

NAME = "millstream"
FAIL, DROP = "FAILFAST", "DROPMALFORMED"
"""Spark's words for what is to become of records that cannot be used."""
PSEUDO = {"ROWTIME": pa.int64(), "ROWPARTITION": pa.int32(), "ROWOFFSET": pa.int64()}


class MillstreamSource(DataSource):
    """Reads one stream. Options: `path` of the database file or of its folder of segments;
    `stream`; `mode`, DROPMALFORMED, as queries do (the default), or FAILFAST."""

    @classmethod
    def name(cls) -> str:
        """What `format` is given."""
        return NAME

    def schema(self) -> StructType:
        """The columns of the stream, then ROWTIME, ROWPARTITION and ROWOFFSET."""
        return from_arrow_schema(arrow_schema(self._shared()))

    def reader(self, schema: StructType) -> DataSourceReader:
        """What reads all of them."""
        mode = self.options.get("mode", DROP).upper()
        if mode not in (FAIL, DROP):
            raise StatementError(f"'{mode}' is no mode.", hint=f"There are {DROP} and {FAIL}.")
        return StreamReader(self._shared(), fail=mode == FAIL)

    def _shared(self) -> Shared:
        return shared(self._option("path"), self._option("stream"))

    def _option(self, name: str) -> str:
        value = self.options.get(name)
        if value is None:
            raise StatementError(
                f"The option '{name}' is missing.",
                hint=f'.option("path", "<database>").option("stream", "<name>") of format {NAME}.',
            )
        return str(value)


class StreamReader(DataSourceReader):
    """Reads the segments of a stream, each in a task."""

    def __init__(self, stream: Shared, *, fail: bool) -> None:
        self.stream = stream
        self.fail = fail

    def partitions(self) -> list[InputPartition]:
        """The splits."""
        return [InputPartition(split) for split in self.stream.splits()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a split. RecordError for a record that is no use, if these are to fail."""
        split: Split = partition.value
        schema = arrow_schema(self.stream)
        spec = decode_spec(self.stream.source, _columns(self.stream))
        with decoder(spec, split.topic) as decoded:
            for records, _ in self.stream.reader().pieces(split):
                found = decoded(records, split.partition)
                if found.problems and self.fail:
                    raise RecordError(found.problems[0].message)
                rows = found.table.select(schema.names).cast(schema).combine_chunks()
                yield from rows.to_batches()


def arrow_schema(stream: Shared) -> pa.Schema:
    """The columns that a stream has in Spark: a TIMESTAMP is an instant there too."""
    columns = stream.source.schema.columns
    names = physical_names(stream.source.schema.names)
    fields = [
        pa.field(name, _instants(arrow_type(column.type)))
        for name, column in zip(names, columns, strict=True)
    ]
    return pa.schema([*fields, *(pa.field(name, kind) for name, kind in PSEUDO.items())])


def _columns(stream: Shared) -> tuple[tuple[str, str], ...]:
    names = stream.source.schema.names
    own = zip(physical_names(names), names, strict=True)
    return (*own, *((name, name) for name in PSEUDO))


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

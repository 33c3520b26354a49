"""Writes what connectors in this process make up, as records of the formats that are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import pyarrow as pa

from millstream.catalog.catalog import Catalog
from millstream.catalog.source import Source
from millstream.connectors.datagen import Datagen
from millstream.connectors.presets import Row
from millstream.ddl.registrations import registrations
from millstream.ddl.topics import refuse_internal
from millstream.log.log import Appended, Topic
from millstream.model.schema import Column, Role, Schema
from millstream.model.types import STRING, Field, SqlType, Struct
from millstream.plan.define import create_source
from millstream.statements.bulk_inserts import records_of_rows
from millstream.statements.inserting import Inserts, refuse_insert
from millstream_parser import parse
from millstream_parser import statements as s

_KEY = "key"
"""The column of the key, which no preset has: its value is in a column of the value, too."""


@dataclass(frozen=True, slots=True)
class GeneratedOutput:
    """See `Output`."""

    inserts: Inserts

    def check(self, datagen: Datagen) -> None:
        """See `Output`: what clients cannot insert, connectors cannot, either."""
        registry = self.inserts.registry
        refuse_internal(registry.settings, datagen.topic, "write to")
        for source in registry.catalog.every().values():
            if source.topic == datagen.topic:
                refuse_insert(source, "write to", registry.catalog, registry.settings)

    def prepare(self, datagen: Datagen) -> None:
        """See `Output`."""
        registry = self.inserts.registry
        source = source_of(datagen)
        schemas = registrations(source, registry.environment, declared=False)
        if registry.log.topic(datagen.topic) is None:
            config = registry.settings.topic_settings
            registry.log.create_topic(Topic(datagen.topic, datagen.partitions, config=config))
        for each in schemas:
            if registry.schemas is not None:
                registry.schemas.id_of(each.subject, each.schema)

    def append(
        self, datagen: Datagen, rows: Sequence[Row], with_them: Sequence[Appended[pa.Table]]
    ) -> None:
        """See `Output`."""
        made = [{**row, _KEY: _key(datagen, row)} for row in rows]
        records = records_of_rows(source_of(datagen), made, self.inserts)
        self.inserts.writer.append([*records, *with_them])


def _key(datagen: Datagen, row: Row) -> object:
    key = row[datagen.preset.key]
    return str(key) if datagen.text_keys else key


@cache
def source_of(datagen: Datagen) -> Source:
    """The stream of the records: all columns are in the value, with names in lower case."""
    names = ", ".join(f"{name} {kind}" for name, kind in datagen.preset.columns)
    (parsed,) = parse(
        f"CREATE STREAM {datagen.preset.name} ({names})"
        f" WITH (KAFKA_TOPIC='{datagen.topic.replace(chr(39), chr(39) * 2)}',"
        f" KEY_FORMAT='KAFKA', VALUE_FORMAT='{datagen.value_format}');"
    )
    assert isinstance(parsed, s.CreateSource)
    made = create_source(parsed, Catalog(), {})
    values = [
        replace(each, name=each.name.lower(), type=_lower(each.type))
        for each in made.schema.columns
    ]
    by_name = {column.name: column for column in values}
    kind = STRING if datagen.text_keys else by_name[datagen.preset.key].type
    return replace(made, schema=Schema((Column(_KEY, kind, Role.KEY), *values)))


def _lower(kind: SqlType) -> SqlType:
    if not isinstance(kind, Struct):
        return kind
    fields = (Field(field.name.lower(), _lower(field.type)) for field in kind.fields)
    return Struct(tuple(fields))

"""Records of Confluent's serialisers, and records for its deserialisers, by one registry."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.message_factory import GetMessageClass

import millstream
from millstream import Database
from millstream.model.schema_text import SchemaText, guid_of
from millstream.schemas.embedded import EmbeddedRegistry
from tests.appending import Headers, append
from tests.conformance.messages import messages_of
from tests.other_registry import OtherRegistry, served
from tests.patience import until
from tests.served import served as millstream_served

AVRO = {
    "type": "record",
    "name": "order",
    "fields": [
        {"name": "n", "type": "long"},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2},
        },
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {
            "name": "lives",
            "type": [
                "null",
                {"type": "record", "name": "place", "fields": [{"name": "town", "type": "string"}]},
            ],
        },
    ],
}
AVRO_VALUE = {"n": 7, "price": Decimal("1.50"), "tags": ["x", "y"], "lives": {"town": "Bern"}}
AVRO_ROW = (7, Decimal("1.50"), ["x", "y"], {"TOWN": "Bern"})
JSON = {
    "title": "order",
    "type": "object",
    "properties": {
        "n": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "lives": {"type": "object", "properties": {"town": {"type": "string"}}},
    },
}
JSON_VALUE = {"n": 7, "tags": ["x", "y"], "lives": {"town": "Bern"}}
PROTO = """
syntax = "proto3";
message Other { string x = 1; }
message Order { int64 n = 1; repeated string tags = 2; Place lives = 3;
                message Place { string town = 1; } }
"""


@pytest.fixture(params=["of the tests", "ours"])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """A registry of the tests, and that of a server of ours."""
    if request.param == "of the tests":
        with served(OtherRegistry()) as url:
            yield url
        return
    with millstream.connect() as db, millstream_served(db.engine) as door:
        yield door.url


def opened(url: str) -> Database:
    return millstream.connect(schema_registry=url, properties={"auto.offset.reset": "earliest"})


def rows(db: Database, sql: str) -> list[tuple[Any, ...]]:
    return list(db.execute(sql))  # type: ignore[arg-type]


def written(db: Database, topic: str) -> list[bytes]:
    """The values of a topic's first partition."""
    found = db.engine.log.read(topic, 0, 0, 1_000).records()
    return [value for value in found["value"].to_pylist() if value is not None]


READ = (
    "CREATE STREAM s WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='{0}');"
    "CREATE STREAM t WITH (KAFKA_TOPIC='t') AS SELECT * FROM s;"
)
IN, OUT = (SerializationContext(topic, MessageField.VALUE) for topic in "st")


def test_avro(url: str) -> None:
    client = SchemaRegistryClient({"url": url})
    theirs = AvroSerializer(client, json.dumps(AVRO))(AVRO_VALUE, IN)
    with opened(url) as db:
        db.execute(READ.format("AVRO"))
        append(db, "s", theirs)
        db.wait()
        assert rows(db, "SELECT * FROM t") == [AVRO_ROW]
        (ours,) = written(db, "t")
        found = AvroDeserializer(client)(ours, OUT)
        upper = {name.upper(): value for name, value in AVRO_VALUE.items()}
        assert found == {**upper, "LIVES": {"TOWN": "Bern"}}


def test_json(url: str) -> None:
    client = SchemaRegistryClient({"url": url})
    theirs = JSONSerializer(json.dumps(JSON), client)(JSON_VALUE, IN)
    with opened(url) as db:
        db.execute(READ.format("JSON_SR"))
        append(db, "s", theirs)
        db.wait()
        assert rows(db, "SELECT n, tags, lives->town FROM t") == [(7, ["x", "y"], "Bern")]
        (ours,) = written(db, "t")
        found = JSONDeserializer(None, schema_registry_client=client)(ours, OUT)
        assert found == {"N": 7, "TAGS": ["x", "y"], "LIVES": {"TOWN": "Bern"}}


def test_protobuf(url: str) -> None:
    client = SchemaRegistryClient({"url": url})
    kind = GetMessageClass(messages_of(PROTO, ())[1])
    message = kind(n=7, tags=["x", "y"], lives={"town": "Bern"})
    theirs = ProtobufSerializer(kind, client)(message, IN)
    assert theirs[5] != 0, "it is not the first message of its file"
    with opened(url) as db:
        db.execute(
            READ.format("PROTOBUF").replace(
                "'PROTOBUF'", "'PROTOBUF', VALUE_SCHEMA_FULL_NAME='Order'"
            )
        )
        append(db, "s", theirs)
        db.wait()
        assert rows(db, "SELECT n, tags, lives->town FROM t") == [(7, ["x", "y"], "Bern")]
        (ours,) = written(db, "t")
        own = client.get_latest_version("t-value").schema.schema_str
        assert own is not None
        (sink,) = messages_of(own, ())
        found = ProtobufDeserializer(GetMessageClass(sink), {}, client)(ours, OUT)
        assert (found.N, list(found.TAGS)) == (7, ["x", "y"])


IN_HEADERS = {"schema.id.serializer": header_schema_id_serializer}
MADE_WITH = {
    "AVRO": lambda client, conf: AvroSerializer(client, json.dumps(AVRO), conf=conf),
    "JSON_SR": lambda client, conf: JSONSerializer(json.dumps(JSON), client, conf=conf),
    "PROTOBUF": lambda client, conf: ProtobufSerializer(
        GetMessageClass(messages_of(PROTO, ())[1]), client, conf
    ),
}


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("form", MADE_WITH)
def test_ids_in_headers(form: str, elsewhere: bool) -> None:
    value: Any = AVRO_VALUE if form == "AVRO" else JSON_VALUE
    if form == "PROTOBUF":
        value = GetMessageClass(messages_of(PROTO, ())[1])(**JSON_VALUE)
    with millstream.connect() as home, millstream_served(home.engine) as door:
        home.execute("SET 'auto.offset.reset' = 'earliest';")
        client = SchemaRegistryClient({"url": door.url})
        headers: Headers = []
        context = SerializationContext("s", MessageField.VALUE, headers)
        theirs = MADE_WITH[form](client, IN_HEADERS)(value, context)
        before = MADE_WITH[form](client, {})(value, IN)
        assert [name for name, _ in headers] == ["__value_schema_id"]
        assert before.endswith(theirs) and len(theirs) < len(before)
        with opened(door.url) as other:
            db = other if elsewhere else home
            more = ", VALUE_SCHEMA_FULL_NAME='Order'" if form == "PROTOBUF" else ""
            db.execute(READ.format(form).replace(f"'{form}'", f"'{form}'{more}"))
            by_number = [("__value_schema_id", before[:5] + headers[0][1][17:])]
            given = [headers, [], by_number, headers, [("__value_schema_id", b"?")]]
            append(db, "s", theirs, before, theirs, None, theirs, headers=given)
            db.wait()
            assert rows(db, "SELECT n, tags, lives->town FROM t") == [(7, ["x", "y"], "Bern")] * 3
            (error,) = rows(
                db, "SELECT message->deserializationError->errorMessage FROM ksql_processing_log;"
            )
            assert "__value_schema_id does not begin as the id of a schema" in error[0]


def test_a_record_waits_for_a_global_id() -> None:
    with millstream.connect(properties={"auto.offset.reset": "earliest"}) as db:
        db.execute(
            "CREATE STREAM s (n BIGINT) WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='AVRO');"
            "CREATE STREAM t AS SELECT * FROM s;"
        )
        schema = SchemaText(
            "AVRO", '{"type":"record","name":"r","fields":[{"name":"n","type":"long"}]}'
        )
        guid = guid_of(schema)
        append(db, "s", b"\x06", headers=[[("__value_schema_id", b"\1" + uuid.UUID(guid).bytes)]])
        db.engine.driver.wake()
        until(lambda: any(guid in str(s.error) for s in db.engine.statuses()))
        schemas = db.engine.schemas
        assert isinstance(schemas, EmbeddedRegistry)
        schemas.register("elsewhere", schema)
        until(lambda: rows(db, "SELECT n FROM t;") == [(3,)])

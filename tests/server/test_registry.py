"""The schema registry over HTTP, by the clients of other programs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

import millstream
from millstream.model.schema_text import SchemaText, guid_of
from millstream.schemas.remote import RemoteRegistry
from millstream_server.auth.endpoint_needs import REGISTRY_PATHS
from millstream_server.registry.routes import REGISTRY_ENDPOINTS
from tests.other_registry import OtherRegistry
from tests.other_registry import served as other_served
from tests.served import NO_AUTHORITIES, served
from tests.server.conftest import RunningServer
from tests.server.guarded import Guarded, guarded


def record(*names: str, default: bool = False) -> str:
    fields: list[dict[str, Any]] = [{"name": name, "type": "int"} for name in names]
    if default:
        fields[-1]["default"] = 0
    return json.dumps({"type": "record", "name": "r", "fields": fields})


@pytest.fixture
def client(door: RunningServer) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": door.url})


def refused(call: Any, *arguments: Any) -> tuple[int, int]:
    with pytest.raises(SchemaRegistryError) as caught:
        call(*arguments)
    return caught.value.http_status_code, caught.value.error_code


def test_versions_and_ids(client: SchemaRegistryClient) -> None:
    one, two = Schema(record("a")), Schema(record("a", "b", default=True))
    assert client.get_subjects() == []
    assert [client.register_schema("s-value", each) for each in (one, two, one)] == [1, 2, 1]
    assert client.register_schema("t-value", one) == 1
    assert client.get_subjects() == ["s-value", "t-value"]
    assert client.get_subjects(subject_prefix="t") == ["t-value"]
    assert client.get_versions("s-value") == [1, 2]
    latest = client.get_latest_version("s-value")
    assert (latest.schema_id, latest.version, latest.subject) == (2, 2, "s-value")
    assert json.loads(client.get_schema(2).schema_str or "") == json.loads(two.schema_str or "")
    assert client.get_version("s-value", 1).schema_id == 1
    assert client.get_subjects_by_schema_id(1) == ["s-value", "t-value"]
    places = client.get_schema_versions(1)
    assert [(each.subject, each.version) for each in places] == [("s-value", 1), ("t-value", 1)]
    spaced = Schema(json.dumps(json.loads(record("a")), indent=2))
    found = client.lookup_schema("s-value", spaced)
    assert (found.schema_id, found.version) == (1, 1), "spaces do not matter"
    assert sorted(client.get_schema_types()) == ["AVRO", "JSON", "PROTOBUF"]


def test_what_there_is_not(client: SchemaRegistryClient) -> None:
    client.register_schema("s", Schema(record("a")))
    assert refused(client.get_schema, 99) == (404, 40403)
    assert refused(client.get_latest_version, "t") == (404, 40401)
    assert refused(client.get_version, "s", 9) == (404, 40402)
    assert refused(client.get_version, "s", 0) == (422, 42202)
    assert refused(client.get_versions, "t") == (404, 40401)
    assert refused(client.lookup_schema, "t", Schema(record("a"))) == (404, 40401)
    assert refused(client.lookup_schema, "s", Schema(record("b"))) == (404, 40403)
    assert refused(client.delete_subject, "t") == (404, 40401)
    assert refused(client.get_compatibility, "s") == (404, 40408)


@pytest.mark.parametrize(
    ("kind", "text"),
    [("AVRO", "{"), ("AVRO", '"other"'), ("PROTOBUF", "x"), ("JSON", "[]"), ("XML", "<a/>")],
)
def test_what_is_no_schema(client: SchemaRegistryClient, kind: str, text: str) -> None:
    assert refused(client.register_schema, "s", Schema(text, kind)) == (422, 42201)
    assert client.get_subjects() == []


def test_levels_of_compatibility(client: SchemaRegistryClient) -> None:
    one, two = Schema(record("a")), Schema(record("a", "b"))
    client.register_schema("s", one)
    assert client.get_compatibility() == "BACKWARD"
    assert refused(client.register_schema, "s", two) == (409, 409)
    assert not client.test_compatibility("s", two)
    assert client.set_compatibility(level="FORWARD") == {"compatibility": "FORWARD"}
    assert client.test_compatibility("s", two)
    client.set_compatibility("s", "FULL_TRANSITIVE")
    assert client.get_compatibility("s") == "FULL_TRANSITIVE"
    assert refused(client.register_schema, "s", two) == (409, 409)
    client.set_compatibility("s", "none")
    assert client.register_schema("s", two) == 2
    assert client.get_compatibility("s") == "NONE"
    client.delete_config("s")
    assert refused(client.get_compatibility, "s") == (404, 40408)
    assert refused(client.set_compatibility, "s", "SIDEWARD") == (422, 42203)
    assert client.get_global_mode() == client.get_mode("s") == "READWRITE"


def test_deletion_with_a_way_back_and_for_good(client: SchemaRegistryClient) -> None:
    for names in (("a",), ("a", "b")):
        client.register_schema("s", Schema(record(*names, default=True)))
    assert refused(client.delete_subject, "s", True) == (404, 40405)
    assert client.delete_version("s", 1) == 1
    assert client.get_versions("s") == [2]
    assert client.get_versions("s", deleted=True) == [1, 2]
    assert client.delete_subject("s") == [2]
    assert client.get_subjects() == []
    assert client.get_subjects(deleted=True) == ["s"]
    assert client.get_schema(1).schema_str, "records may have it"
    client.clear_caches()
    assert client.register_schema("s", Schema(record("c"))) == 3, "there is nothing to fit"
    assert client.get_versions("s") == [3], "the number of a version is not used again"
    client.delete_subject("s")
    assert client.delete_subject("s", True) == [1, 2, 3]
    assert client.get_subjects(deleted=True) == []


def test_references(client: SchemaRegistryClient) -> None:
    other = 'syntax = "proto3"; package o; message P { int32 n = 1; }'
    text = 'syntax = "proto3"; import "o.proto"; message M { o.P p = 1; }'
    client.register_schema("o.proto", Schema(other, "PROTOBUF"))
    own = [SchemaReference("o.proto", "o.proto", 1)]
    assert client.register_schema("m", Schema(text, "PROTOBUF", own)) == 2
    assert client.get_referenced_by("o.proto", 1) == [2]
    assert refused(client.delete_subject, "o.proto") == (422, 42206)
    missing = [SchemaReference("o.proto", "o.proto", 7)]
    assert refused(client.register_schema, "n", Schema(text, "PROTOBUF", missing)) == (422, 42201)


def test_statements_use_the_same_registry(door: RunningServer) -> None:
    client = SchemaRegistryClient({"url": door.url})
    client.register_schema("orders-value", Schema(record("n")))
    door.ksql(
        "CREATE STREAM orders WITH (kafka_topic='orders', value_format='AVRO', partitions=1);"
        "CREATE STREAM doubled AS SELECT n * 2 AS n FROM orders;"
    )
    assert client.get_subjects() == ["DOUBLED-value", "orders-value"]
    (entity,) = door.ksql("DESCRIBE doubled EXTENDED;")
    shown = entity["sourceDescription"]
    assert shown["valueSchema"] == "DOUBLED-value, version 1, id 2" and "keySchema" not in shown


def test_the_client_of_ours_uses_it(door: RunningServer) -> None:
    with millstream.connect(
        schema_registry=door.url, properties={"auto.offset.reset": "earliest"}
    ) as db:
        db.execute(
            "CREATE STREAM s (n INT) WITH (kafka_topic='s', value_format='AVRO', partitions=1);"
        )
        db.insert("s", [(1,)])
        assert isinstance(db.engine.schemas, RemoteRegistry)
        assert list(db.execute("SELECT * FROM s")) == [(1,)]  # type: ignore[arg-type]
    assert door.http.get("/subjects").json() == ["s-value"]


def test_answers_as_they_are_sent(door: RunningServer) -> None:
    http = door.http
    answer = http.post("/subjects/s/versions", json={"schema": '"int"'})
    assert answer.headers["content-type"].startswith("application/vnd.schemaregistry.v1+json")
    guid = guid_of(SchemaText("AVRO", '"int"'))
    told = {"schema": '"int"', "guid": guid}
    assert answer.json() == {"id": 1, "version": 1, "guid": guid}
    assert http.get("/schemas/ids/1").json() == told, "AVRO is the default"
    assert http.get(f"/schemas/guids/{told['guid']}").json() == told
    assert http.get("/schemas/guids/unknown").status_code == 404
    assert http.get("/schemas/ids/1/schema").text == '"int"'
    assert http.get("/subjects/s/versions/latest/schema").text == '"int"'
    assert http.get("/subjects/s/versions/-1").json()["version"] == 1
    assert http.get("/schemas").json() == [{"subject": "s", "version": 1, "id": 1, **told}]
    verbose = http.post(
        "/compatibility/subjects/s/versions/latest?verbose=true", json={"schema": '"string"'}
    ).json()
    assert verbose["is_compatible"] is False and verbose["messages"]
    assert http.get("/config").json() == {"compatibilityLevel": "BACKWARD"}
    assert http.get("/config/s?defaultToGlobal=true").json() == {"compatibilityLevel": "BACKWARD"}
    assert http.post("/subjects/s/versions", json={"schema": '"long"', "id": 9}).json()["id"] == 9


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"[]", 400),
        (b"{", 400),
        (b"{}", 422),
        (b'{"schema": 5}', 422),
        (b'{"schema": "\\"int\\"", "schemaType": 5}', 422),
        (b'{"schema": "\\"int\\"", "references": {}}', 422),
        (b'{"schema": "\\"int\\"", "references": [{"name": "x"}]}', 422),
        (b'{"schema": "\\"int\\"", "id": -1}', 422),
        (b'{"schema": "\\"int\\"", "id": 99999999999}', 422),
        (b'{"schema": "' + b"[" * 5_000 + b'"}', 422),
    ],
)
def test_bodies_that_are_wrong(door: RunningServer, body: bytes, status: int) -> None:
    answer = door.http.post("/subjects/s/versions", content=body)
    assert answer.status_code == status
    assert set(answer.json()) == {"error_code", "message"}
    assert door.http.get("/subjects").json() == []


@pytest.mark.parametrize("number", ["x", "-2", "99999999999", "1e3", "%C2%B2"])
def test_numbers_that_are_none(door: RunningServer, number: str) -> None:
    door.http.post("/subjects/s/versions", json={"schema": '"int"'})
    assert door.http.get(f"/subjects/s/versions/{number}").status_code == 422
    assert door.http.get(f"/schemas/ids/{number}").status_code == 404
    assert door.http.get(f"/subjects?offset={number}&limit={number}").status_code == 200


def test_a_registry_elsewhere_is_not_served() -> None:
    with (
        other_served(OtherRegistry()) as url,
        millstream.connect(schema_registry=url) as db,
        served(db.engine) as here,
    ):
        answer = httpx.get(f"{here.url}/subjects", verify=NO_AUTHORITIES)
        assert answer.status_code == 404 and url in answer.json()["message"]


def test_each_path_has_its_needs() -> None:
    assert {each.path for each in REGISTRY_ENDPOINTS} == set(REGISTRY_PATHS)


@pytest.fixture
def guard(tmp_path: Path) -> Iterator[Guarded]:
    rules = (
        "allow role:reader READ subject:open*\n"
        "allow role:writer WRITE,READ,ALTER,DELETE subject:open*\n"
    )
    file = tmp_path / "own rules"
    file.write_text(rules)
    file.chmod(0o600)
    with guarded(tmp_path, **{"authorization.rules.file": str(file)}) as made:
        yield made


def test_subjects_have_permissions(guard: Guarded) -> None:
    def call(caller: str, method: str, path: str, body: Any = None) -> httpx.Response:
        return guard.clients[caller].request(method, path, json=body)

    schema = {"schema": '"int"'}
    assert call("admin", "POST", "/subjects/secret/versions", {"schema": '"string"'}).is_success
    assert call("writer", "POST", "/subjects/open-value/versions", schema).is_success
    assert call("reader", "GET", "/subjects").json() == ["open-value"]
    assert call("admin", "GET", "/subjects").json() == ["open-value", "secret"]
    ids = [guid_of(SchemaText("AVRO", text)) for text in ('"string"', '"int"')]
    told = {"schema": '"int"', "guid": ids[1]}
    for place in ("ids/2", f"guids/{ids[1]}"):
        assert call("reader", "GET", f"/schemas/{place}").json() == told
    for place in ("ids/1", f"guids/{ids[0]}"):
        assert call("reader", "GET", f"/schemas/{place}").status_code == 404
    denied = [
        ("reader", "GET", "/subjects/secret/versions", None),
        ("reader", "POST", "/subjects/open-value/versions", schema),
        ("reader", "POST", "/subjects/secret", schema),
        ("reader", "DELETE", "/subjects/open-value", None),
        ("reader", "DELETE", "/subjects/open-value/versions/1", None),
        ("reader", "PUT", "/config/open-value", {"compatibility": "NONE"}),
        ("writer", "PUT", "/config", {"compatibility": "NONE"}),
        ("writer", "DELETE", "/config", None),
        ("reader", "GET", "/config/secret", None),
        ("reader", "POST", "/compatibility/subjects/secret/versions", schema),
    ]
    for caller, method, path, body in denied:
        answer = call(caller, method, path, body)
        assert answer.status_code == 403, (caller, method, path)
        assert answer.json()["error_code"] in (40300, 40301)
    assert call("writer", "PUT", "/config/open-value", {"compatibility": "NONE"}).is_success
    assert call("admin", "PUT", "/config", {"compatibility": "NONE"}).is_success
    nobody = guard.clients["none"].get("/subjects")
    assert nobody.status_code == 401
    changed = [entry["statement"] for entry in guard.audited(event="statement")]
    assert "WRITE subject open-value" in changed and "ALTER subject open-value" in changed

"""Every endpoint with every kind of caller, over TLS: authentication and permissions."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosedError

from millstream_server.auth.endpoint_needs import NEEDS, REGISTRY_PATHS
from millstream_server.routes import ENDPOINTS
from tests.certified import authority
from tests.patience import PATIENCE_S
from tests.server.guarded import HEADERS, READERS, UNKNOWN, Guarded, guarded

PARAMETERS = ("property", "type", "entity", "action", "subject", "version", "id")


def named(path: str) -> str:
    """A path with names in the place of its parameters."""
    for name in PARAMETERS:
        path = path.replace(f"{{{name}}}", "x")
    return path


FREE = frozenset(named(path) for path, needs in NEEDS.items() if not needs)
OF_SUBJECTS = frozenset(map(named, REGISTRY_PATHS))
LISTED = ("/subjects", "/schemas", "/mode", "/config")
"""What of the registry has, without a rule, nothing in it, or nothing to hide."""
BODIES: dict[str, Any] = {
    "/ksql": {"ksql": "SHOW STREAMS;"},
    "/query": {"sql": "SELECT * FROM orders LIMIT 1;"},
    "/query-stream": {"sql": "SELECT * FROM orders LIMIT 1;"},
    "/inserts-stream": {"target": "orders"},
    "/close-query": {"queryId": "none"},
    "/ksql/terminate": {"deleteTopicList": 3},
}


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with guarded(tmp_path_factory.mktemp("door")) as found:
        yield found


def routes() -> list[tuple[str, str]]:
    """All of the table, with names in the place of parameters."""
    made = [(e.method, e.path) for e in ENDPOINTS] + [("GET", "/openapi.json")]
    return [(method, named(path)) for method, path in made]


PUBLIC = {("GET", "/"), ("GET", "/console/{file}")}
"""The console, which holds nothing: what it asks for is checked."""


def test_only_the_console_is_public() -> None:
    assert {(e.method, e.path) for e in ENDPOINTS if e.public} == PUBLIC


def asked(door: Guarded, caller: str, method: str, path: str) -> httpx.Response:
    body = BODIES.get(path, {}) if method in ("POST", "PUT") else None
    return door.clients[caller].request(method, path, json=body)


@pytest.mark.parametrize("caller", HEADERS)
@pytest.mark.parametrize(("method", "path"), routes())
def test_authentication_of_each_caller(door: Guarded, method: str, path: str, caller: str) -> None:
    answer = asked(door, caller, method, path)
    assert answer.http_version == "HTTP/2"
    if (method, path) in PUBLIC:
        assert answer.status_code in (307, 404)
        assert "raw_orders" not in answer.text
    elif caller in UNKNOWN:
        # An address that guesses is slowed down for a while.
        assert answer.status_code in (401, 429)
        assert "raw_orders" not in answer.text
    elif caller == "admin":
        assert answer.status_code not in (401, 403)
    elif path in FREE:
        assert (answer.status_code == 403) is not _may(method, path, caller)
        assert answer.status_code != 401
    else:
        assert (answer.status_code, answer.json()["error_code"] // 100) == (403, 403)


def _may(method: str, path: str, caller: str) -> bool:
    """Whether the body of the path requests something that the caller may do."""
    if path in OF_SUBJECTS:
        listed = path in LISTED or path.startswith(("/schemas/", "/mode/"))
        return method == "GET" and listed
    if path.startswith("/query"):
        return caller in READERS
    return path != "/inserts-stream" or caller == "writer"


STATEMENTS = [
    ("SELECT * FROM orders LIMIT 1;", {"reader", "token", "certificate", "admin"}),
    ("SELECT * FROM orders EMIT CHANGES LIMIT 1;", {"reader", "token", "certificate", "admin"}),
    ("SELECT * FROM pay LIMIT 1;", {"admin"}),
    ("SELECT o.id FROM orders o JOIN pay p ON o.id = p.id;", {"admin"}),
    ("PRINT raw_orders FROM BEGINNING LIMIT 1;", {"reader", "token", "certificate", "admin"}),
    ("PRINT salaries FROM BEGINNING LIMIT 1;", {"admin"}),
    ("PRINT _millstream_commands FROM BEGINNING LIMIT 1;", {"admin"}),
    ("INSERT INTO orders VALUES (2, 'milk');", {"writer", "admin"}),
    ("INSERT INTO pay VALUES (2, 3);", {"admin"}),
    ("CREATE STREAM peek (v STRING) WITH (kafka_topic='salaries', format='KAFKA');", set()),
    ("CREATE STREAM copy AS SELECT * FROM orders;", set()),
    ("EXPLAIN SELECT * FROM pay EMIT CHANGES;", {"admin"}),
    ("DESCRIBE pay;", {"admin"}),
    ("SELECT logger FROM KSQL_PROCESSING_LOG LIMIT 1;", {"admin"}),
    ("SELECT logger FROM KSQL_PROCESSING_LOG EMIT CHANGES LIMIT 0;", {"admin"}),
    ("DESCRIBE KSQL_PROCESSING_LOG;", {"admin"}),
    ("EXPLAIN SELECT logger FROM KSQL_PROCESSING_LOG EMIT CHANGES;", {"admin"}),
    ("INSERT INTO KSQL_PROCESSING_LOG (level) VALUES ('x');", set()),
    ("DROP STREAM KSQL_PROCESSING_LOG DELETE TOPIC;", set()),
    ("DESCRIBE orders;", {"reader", "token", "certificate", "writer", "admin"}),
    ("DROP STREAM orders;", set()),
    ("TERMINATE ALL;", set()),
    ("RUN SCRIPT '/etc/passwd';", None),
]


@pytest.mark.parametrize("caller", ["reader", "token", "certificate", "writer", "admin"])
@pytest.mark.parametrize(("statement", "may"), STATEMENTS)
def test_what_each_may_do(door: Guarded, statement: str, may: set[str] | None, caller: str) -> None:
    if may is not None and not may and caller == "admin":
        pytest.skip("it would take away what the others are tried with")
    query = statement.startswith(("SELECT", "PRINT"))
    client = door.clients[caller]
    properties = {"auto.offset.reset": "earliest"}
    answer = (
        client.post("/query-stream", json={"sql": statement, "properties": properties})
        if query
        else client.post("/ksql", json={"ksql": statement})
    )
    if may is not None and caller in may:
        assert answer.status_code == 200 or "pull quer" in answer.text.lower(), answer.text
        assert answer.status_code != 403
    else:
        assert answer.status_code == 403, answer.text
        assert answer.json()["error_code"] == 40301
        assert door.audited(event="refused", code="E-DENIED")


PROBES = Path(__file__).with_name("escapes.txt").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("path", ["/ksql", "/query-stream"])
@pytest.mark.parametrize("probe", PROBES)
def test_no_statement_gets_out(door: Guarded, probe: str, path: str, tmp_path: Path) -> None:
    """tests/server/test_escapes.py looks closer; here TLS and authentication are in between."""
    file = tmp_path / "secret.csv"
    file.write_text("id,v\n1,canary of the file\n")
    body = {"ksql": probe.replace("{file}", str(file)), "streamsProperties": {}}
    answer = door.clients["admin"].post(path, json=body)
    assert answer.status_code in (400, 403, 503), answer.text
    assert "canary" not in answer.text


def test_lists_show_what_may_be_seen(door: Guarded) -> None:
    def names(caller: str, text: str, key: str, field: str) -> list[str]:
        answer = door.clients[caller].post("/ksql", json={"ksql": text})
        assert answer.status_code == 200, answer.text
        return [item[field] for item in answer.json()[0][key]]

    for caller, streams, topics in (
        ("certificate", ["ORDERS"], ["raw_orders"]),
        (
            "admin",
            ["KSQL_PROCESSING_LOG", "ORDERS", "PAID", "PAY"],
            ["PAID", "raw_orders", "salaries"],
        ),
    ):
        assert names(caller, "SHOW STREAMS;", "streams", "name") == streams
        assert sorted(names(caller, "SHOW TOPICS;", "topics", "name")) == topics
    assert names("reader", "SHOW QUERIES;", "queries", "id") == []
    (query,) = names("admin", "SHOW QUERIES;", "queries", "id")
    door.clients["admin"].post("/ksql", json={"ksql": f"TERMINATE {query};"})
    listed = "LIST TERMINATED QUERIES;", "terminatedQueries", "queryId"
    assert names("reader", *listed) == []
    assert names("admin", *listed) == [query]


def test_a_script_is_asked_about_as_it_goes(door: Guarded) -> None:
    """The first statement's object does not exist when the second is first checked."""
    text = (
        "CREATE STREAM mine (id INT KEY, item STRING)"
        " WITH (kafka_topic='raw_orders', value_format='JSON'); INSERT INTO mine VALUES (3, 'x');"
    )
    answer = door.clients["reader"].post("/ksql", json={"ksql": text})
    assert answer.status_code == 403
    assert "MINE" not in door.engine.catalog.sources


def test_rows_of_a_push_query_are_its_owner_s_to_end(door: Guarded) -> None:
    sql = {"sql": "SELECT * FROM orders EMIT CHANGES;"}
    with door.clients["reader"].stream("POST", "/query-stream", json=sql) as answer:
        lines = answer.iter_lines()
        query = {"queryId": json.loads(next(lines))["queryId"]}
        (stream,) = door.engine.push_queries.streams.values()
        assert door.clients["writer"].post("/close-query", json=query).status_code == 400
        shown = door.clients["writer"].post("/ksql", json={"ksql": "SHOW QUERIES;"})
        assert shown.json()[0]["queries"] == []
        assert door.clients["reader"].post("/close-query", json=query).status_code == 200
        assert list(lines) is not None
    assert stream.query_id not in door.engine.push_queries.streams


@pytest.mark.parametrize("caller", ["none", "wrong password", "writer", "reader"])
def test_websockets(door: Guarded, caller: str, caplog: pytest.LogCaptureFixture) -> None:
    frames, code = asyncio.run(_frames(door, caller))
    if caller == "reader":
        assert [column["name"] for column in frames[0]] == ["ID", "ITEM"]
    else:
        assert [list(frame) for frame in frames] == [["error"]]
        assert code in (1003, 1011)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def _frames(door: Guarded, caller: str) -> tuple[list[Any], int | None]:
    """The frames of a websocket, and the code it is closed with. The client has one thread: reading
    and writing a TLS connection in two threads at a time, as the other client of `websockets` does,
    loses what is written now and then before Python 3.13."""
    request = quote(json.dumps({"sql": "SELECT * FROM orders LIMIT 1;"}))
    url = f"wss{door.url.removeprefix('https')}/ws/query?request={request}"
    trusted = ssl.create_default_context(cafile=str(door.ours.file))
    async with (
        asyncio.timeout(PATIENCE_S),
        connect(
            url, ssl=trusted, open_timeout=PATIENCE_S, additional_headers=door.headers(caller)
        ) as client,
    ):
        frames = []
        with contextlib.suppress(ConnectionClosedError):
            async for frame in client:
                frames.append(json.loads(frame))
    return frames, client.close_code


def test_pages_of_others_do_not_call(door: Guarded) -> None:
    client = door.clients["admin"]
    answer = client.post("/ksql", json=BODIES["/ksql"], headers={"origin": "https://evil.example"})
    assert answer.status_code == 403
    own = client.post("/ksql", json=BODIES["/ksql"], headers={"origin": door.url})
    assert own.status_code == 200 and "access-control-allow-origin" not in own.headers


def test_the_audit_log_has_users_and_statements(door: Guarded) -> None:
    text = "INSERT INTO orders VALUES (7, 'canary-of-the-row');"
    assert door.clients["writer"].post("/ksql", json={"ksql": text}).status_code == 200
    done = door.audited(event="statement", principal="writer")
    assert done[-1]["statement"] == "INSERT INTO orders VALUES (?, '***');"
    assert asked(door, "none", "GET", "/info").status_code == 401
    assert door.audited(event="refused", path="/info")[-1]["code"] == "E-AUTH"
    assert not [line for line in door.lines if "canary" in line]


def test_secrets_are_not_among_the_properties(door: Guarded) -> None:
    answer = door.clients["admin"].post("/ksql", json={"ksql": "SHOW PROPERTIES;"})
    assert answer.status_code == 200 and "canary" not in answer.text
    text = "SET 'ssl.key.password' = 'canary';"
    refused = door.clients["admin"].post("/ksql", json={"ksql": text})
    assert refused.status_code == 400


def test_certificates_of_another_authority_are_refused(door: Guarded, tmp_path: Path) -> None:
    context = ssl.create_default_context(cafile=str(door.ours.file))
    context.load_cert_chain(authority("others", tmp_path).signed("carol", tmp_path))
    with (
        pytest.raises(httpx.TransportError),
        httpx.Client(base_url=door.url, verify=context, timeout=PATIENCE_S) as client,
    ):
        client.get("/info")


def test_old_protocols_are_refused(door: Guarded) -> None:
    host, _, port = door.url.removeprefix("https://").rpartition(":")
    context = ssl.create_default_context(cafile=str(door.ours.file))
    context.set_alpn_protocols(["h2", "http/1.1"])
    with (
        socket.create_connection((host, int(port))) as raw,
        context.wrap_socket(raw, server_hostname=host) as secured,
    ):
        assert secured.selected_alpn_protocol() == "h2"
        assert secured.version() in ("TLSv1.2", "TLSv1.3")
    with socket.create_connection((host, int(port))) as plain:
        plain.sendall(b"GET /info HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"200" not in plain.recv(100)


def test_what_one_principal_may_do_at_a_time(tmp_path: Path) -> None:
    with guarded(tmp_path, **{"millstream.principal.max.concurrent": "1"}) as door:
        reader, sql = door.clients["reader"], {"sql": "SELECT * FROM orders EMIT CHANGES;"}
        with reader.stream("POST", "/query-stream", json=sql) as answer:
            next(answer.iter_lines())
            refused = reader.get("/info")
            assert (refused.status_code, refused.json()["error_code"]) == (429, 42900)
            assert int(refused.headers["retry-after"]) >= 1
            assert door.clients["writer"].get("/info").status_code == 200


def test_bodies_and_scripts_are_bounded(tmp_path: Path) -> None:
    flags = {"millstream.body.max.bytes": "1KiB", "millstream.statements.max": "3"}
    with guarded(tmp_path, **flags) as door:
        admin = door.clients["admin"]
        large = {"ksql": "SHOW STREAMS;" + " " * 2_000}
        assert admin.post("/ksql", json=large).status_code == 413
        assert admin.post("/ksql", json={"ksql": "SHOW TYPES;" * 4}).status_code == 413
        assert admin.post("/ksql", json={"ksql": "SHOW TYPES;" * 3}).status_code == 200


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/query-stream", {"sql": "SELECT * FROM pa;"}),
        ("/query", {"sql": "SELECT * FROM pa;"}),
        ("/ksql", {"ksql": "DESCRIBE pa;"}),
        ("/ksql", {"ksql": "DESCRIBE pa; DESCRIBE pa;"}),
        ("/ksql", {"ksql": "INSERT INTO pa VALUES (1, 2);"}),
        ("/ksql", {"ksql": "CREATE STREAM x AS SELECT * FROM pa;"}),
        ("/inserts-stream", {"target": "pa"}),
    ],
)
def test_hints_name_only_what_is_seen(door: Guarded, path: str, body: dict[str, Any]) -> None:
    """PAY is on a topic without permissions for readers and writers."""
    found = {who: door.clients[who].post(path, json=body) for who in ("reader", "writer", "admin")}
    assert "Did you mean PA" in found["admin"].text
    for who in ("reader", "writer"):
        assert found[who].status_code == found["admin"].status_code or found[who].status_code == 403
        assert "PAY" not in found[who].text.upper().replace("SALARIES", "")
        assert "PAID" not in found[who].text.upper()


def test_hints_name_what_is_seen(door: Guarded) -> None:
    answer = door.clients["reader"].post("/query-stream", json={"sql": "SELECT * FROM order_;"})
    assert "Did you mean ORDERS?" in answer.json()["message"]

"""The HTTP server over a real cluster: create, insert, pull, push, terminate."""

from __future__ import annotations

import json
import time
import uuid
from typing import Any

import httpx
from confluent_kafka.admin import AdminClient

import millstream
from millstream_server.server import ServerSettings
from tests.patience import PATIENCE_S
from tests.served import NO_AUTHORITIES, served


def test_a_session_over_http(servers: str) -> None:
    name = f"served-{uuid.uuid4().hex[:8]}"
    with (
        millstream.connect(kafka=servers, service_id=name) as db,
        served(db.engine, {"auto.offset.reset": "earliest"}) as door,
        httpx.Client(
            base_url=door.url, verify=NO_AUTHORITIES, timeout=PATIENCE_S, http1=False, http2=True
        ) as client,
    ):

        def ksql(text: str) -> Any:
            return client.post("/ksql", json={"ksql": text}).raise_for_status().json()

        def rows(sql: str) -> list[Any]:
            answer = client.post("/query-stream", json={"sql": sql}).raise_for_status()
            return [json.loads(line) for line in answer.text.splitlines()[1:]]

        ksql(
            "CREATE STREAM orders (id INT KEY, qty INT)"
            f" WITH (kafka_topic='{name}', value_format='JSON', partitions=2);"
        )
        created = ksql("CREATE TABLE totals AS SELECT id, SUM(qty) AS n FROM orders GROUP BY id;")
        lines = '{"target":"orders"}\n{"ID":1,"QTY":2}\n{"ID":1,"QTY":3}\n{"ID":2,"QTY":7}'
        inserted = client.post("/inserts-stream", content=lines.encode())
        assert inserted.text.count('"ok"') == 3
        db.wait()
        assert rows("SELECT id, n FROM totals WHERE id = 1;") == [[1, 5]]
        pushed = rows("SELECT id, qty FROM orders EMIT CHANGES LIMIT 3;")
        assert sorted(pushed) == [[1, 2], [1, 3], [2, 7]]
        query_id = created[0]["commandStatus"]["queryId"]
        (ended,) = ksql(f"TERMINATE {query_id};")
        assert ended["commandStatus"]["status"] == "SUCCESS"
        told = client.get("/status/table/TOTALS/create")
        assert told.status_code == 200, told.text
        assert told.json()["queryId"] == query_id
        assert client.post("/ksql/terminate", json={"deleteTopicList": [".*"]}).status_code == 200


def test_two_servers_of_one_service_list_each_other(servers: str) -> None:
    name = f"served-{uuid.uuid4().hex[:8]}"
    cluster = AdminClient({"bootstrap.servers": servers}).list_topics(timeout=PATIENCE_S).cluster_id
    with (
        millstream.connect(kafka=servers, service_id=name) as here,
        millstream.connect(kafka=servers, service_id=name) as there,
        served(here.engine, settings=ServerSettings(host="here:8088")) as door,
        served(there.engine, settings=ServerSettings(host="there:8088")),
        httpx.Client(base_url=door.url, verify=NO_AUTHORITIES, timeout=PATIENCE_S) as client,
    ):

        def ksql(text: str) -> Any:
            return client.post("/ksql", json={"ksql": text}).raise_for_status().json()

        info = client.get("/info").json()["KsqlServerInfo"]
        assert info["kafkaClusterId"] == cluster
        ksql(
            f"CREATE STREAM s (id INT KEY, n INT) WITH (kafka_topic='{name}', format='JSON',"
            " partitions=2); CREATE TABLE t AS SELECT id, COUNT(*) AS n FROM s GROUP BY id;"
        )
        until = time.monotonic() + PATIENCE_S
        while ksql("SHOW QUERIES;")[0]["queries"][0]["statusCount"] != {"RUNNING": 2}:
            assert time.monotonic() < until, ksql("SHOW QUERIES;")
        found = client.get("/clusterStatus").json()["clusterStatus"]
        assert {host: status["hostAlive"] for host, status in found.items()} == {
            "here:8088": True,
            "there:8088": True,
        }
        client.post("/ksql/terminate", json={"deleteTopicList": [".*"]})

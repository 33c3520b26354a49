"""POST /ksql: entities, refusals, statuses."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from millstream.cluster.host_info import PeerHost
from millstream.cluster.metadata import HostedPartitions, InstanceMetadata
from millstream.command_topic.entries import Command
from millstream.model.clock import now_ms
from millstream.model.settings import EngineSettings
from millstream.service.execution import open_engine
from tests.patience import PATIENCE_S
from tests.served import NO_AUTHORITIES, Served, served
from tests.server.conftest import MADE, RunningServer


def test_a_statement_gives_its_status(door: RunningServer) -> None:
    (entity,) = door.ksql(MADE)
    assert entity == {
        "@type": "currentStatus",
        "statementText": MADE,
        "commandId": "stream/`S`/create",
        "commandStatus": {"status": "SUCCESS", "message": "Stream created", "queryId": None},
        "commandSequenceNumber": 0,
        "warnings": [],
    }
    status = door.http.get("/status/stream/S/create")
    assert status.json() == entity["commandStatus"]
    assert door.http.get("/status").json() == {"commandStatuses": {"stream/`S`/create": "SUCCESS"}}
    assert door.http.get("/status/stream/T/create").json()["error_code"] == 40400


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("SHOW STREAMS;", "streams"),
        ("SHOW STREAMS EXTENDED;", "source_descriptions"),
        ("SHOW TABLES;", "tables"),
        ("SHOW TOPICS;", "kafka_topics"),
        ("SHOW TOPICS EXTENDED;", "kafka_topics_extended"),
        ("ALTER TOPIC orders SET ('retention.ms' = '1000000000');", "currentStatus"),
        ("REPLAY orders FROM SPENDING;", "currentStatus"),
        ("SHOW QUERIES;", "queries"),
        ("SHOW QUERIES EXTENDED;", "query_descriptions"),
        ("LIST TERMINATED QUERIES;", "terminated_queries"),
        ("SHOW FUNCTIONS;", "function_names"),
        ("SHOW PROPERTIES;", "properties"),
        ("SHOW TYPES;", "type_list"),
        ("SHOW VARIABLES;", "variables"),
        ("DESCRIBE spending;", "sourceDescription"),
        ("DESCRIBE TABLES EXTENDED;", "source_descriptions"),
        ("DESCRIBE FUNCTION SUM;", "describe_function"),
        ("EXPLAIN SELECT * FROM orders EMIT CHANGES;", "queryDescription"),
        ("EXPLAIN CTAS_SPENDING_1;", "queryDescription"),
        ("EXPLAIN SELECT * FROM spending;", "queryDescription"),
        ("ASSERT TOPIC orders;", "assert_topic"),
        ("PAUSE CTAS_SPENDING_1;", "currentStatus"),
        ("TERMINATE CTAS_SPENDING_1;", "currentStatus"),
        ("CREATE STREAM IF NOT EXISTS orders AS SELECT * FROM spending;", "warning_entity"),
        ("CREATE TABLE IF NOT EXISTS spending AS SELECT * FROM spending;", "warning_entity"),
        ("UNDEFINE nothing;", "warning_entity"),
        ("DROP STREAM IF EXISTS nothing;", "currentStatus"),
        ("DROP TABLE IF EXISTS nothing DELETE TOPIC;", "currentStatus"),
        ("DROP TYPE IF EXISTS nothing;", "currentStatus"),
        ("INSERT INTO orders SELECT * FROM orders;", "currentStatus"),
        ("CREATE TYPE money AS DECIMAL(6, 2);", "currentStatus"),
    ],
)  # fmt: skip
def test_what_each_statement_gives(shop: RunningServer, statement: str, kind: str) -> None:
    (entity,) = shop.ksql(statement)
    assert entity["@type"] == kind
    assert entity["statementText"] == statement
    assert entity["warnings"] == []


def test_terminated_queries_have_their_statement_and_sink(shop: RunningServer) -> None:
    shop.ksql("TERMINATE CTAS_SPENDING_1;")
    (entity,) = shop.ksql("LIST TERMINATED QUERIES;")
    (ended,) = entity["terminatedQueries"]
    assert ended.pop("endedAt") > 0
    assert ended == {
        "queryId": "CTAS_SPENDING_1",
        "sink": "SPENDING",
        "queryString": "CREATE TABLE spending AS SELECT customer, SUM(amount) AS total"
        " FROM orders GROUP BY customer;",
    }


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO orders VALUES ('eve', 1);",
        "SET 'auto.offset.reset'='latest';",
        "DEFINE x = '1';",
    ],
)
def test_statements_without_entity(shop: RunningServer, statement: str) -> None:
    assert shop.ksql(statement) == []


def test_a_variable_stands_for_its_value_in_the_statements_behind_it(door: RunningServer) -> None:
    made, shown = door.ksql(
        "DEFINE name = 'things'; CREATE STREAM ${name} (id INT KEY)"
        " WITH (kafka_topic='${name}', value_format='JSON', partitions=1); DESCRIBE ${name};"
    )
    assert made["commandId"] == "stream/`THINGS`/create"
    assert shown["sourceDescription"]["name"] == "THINGS"


def test_a_wrong_setting_is_refused_before_anything_is_executed(door: RunningServer) -> None:
    refused = door.http.post("/ksql", json={"ksql": f"{MADE} SET 'no.such.setting'='1';"})
    assert refused.status_code == 400
    assert refused.json()["statementText"] == "SET 'no.such.setting'='1';"
    (system,) = door.ksql("SHOW STREAMS;")[0]["streams"]
    assert system["name"] == "KSQL_PROCESSING_LOG"


def test_a_query_is_described(shop: RunningServer) -> None:
    (entity,) = shop.ksql("SHOW QUERIES;")
    assert entity["queries"] == [
        {
            "queryString": "CREATE TABLE spending AS SELECT customer, SUM(amount) AS total"
            " FROM orders GROUP BY customer;",
            "sinks": ["SPENDING"],
            "sinkKafkaTopics": ["SPENDING"],
            "id": "CTAS_SPENDING_1",
            "statusCount": {"RUNNING": 1},
            "queryType": "PERSISTENT",
            "state": "RUNNING",
        }
    ]
    (described,) = shop.ksql("DESCRIBE spending EXTENDED;")
    facts = described["sourceDescription"]
    assert facts["partitions"] == 1
    assert [field["name"] for field in facts["fields"]] == ["CUSTOMER", "TOTAL"]
    assert facts["fields"][0]["type"] == "KEY"
    (read,) = shop.ksql("DESCRIBE orders EXTENDED;")
    (summary,) = read["sourceDescription"]["queryOffsetSummaries"]
    assert summary["topicSummaries"][0]["offsets"][0]["consumerOffset"] == 3


@pytest.mark.parametrize(
    ("statement", "code", "says"),
    [
        ("SELECT * FROM spending;", 40002, "/query-stream"),
        ("PRINT orders;", 40002, "/query-stream"),
        ("SELEC;", 40001, "line 1:1"),
        ("DROP STREAM nothing;", 40001, "NOTHING"),
        ("DESCRIBE nothing;", 40001, "NOTHING"),
        ("TERMINATE nothing;", 40001, "NOTHING"),
        ("ASSERT TOPIC nothing TIMEOUT 1 MILLISECONDS;", 41700, "nothing"),
        ("RUN SCRIPT 'x.sql';", 40001, "local file"),
        ("ASSERT VALUES orders (customer) VALUES ('a');", 40001, "ASSERT"),
    ],
)
def test_refused_statements(shop: RunningServer, statement: str, code: int, says: str) -> None:
    error = shop.refused(statement)
    assert (error["@type"], error["error_code"]) == ("statement_error", code)
    assert error["statementText"] == statement
    assert says in error["message"]
    assert error["entities"] == []


def test_an_error_reports_the_work_before_it(door: RunningServer) -> None:
    """Assertions refer to the state at their execution, so they are not tried beforehand."""
    error = door.refused(f"{MADE} ASSERT TOPIC nothing TIMEOUT 1 MILLISECONDS;")
    assert error["statementText"].startswith("ASSERT TOPIC nothing")
    assert [entity["commandId"] for entity in error["entities"]] == ["stream/`S`/create"]


def test_variables_and_properties_come_with_the_request(shop: RunningServer) -> None:
    (found,) = shop.ksql("DESCRIBE ${what};", sessionVariables={"what": "orders"})
    assert found["sourceDescription"]["name"] == "ORDERS"
    (shown,) = shop.ksql(
        "SHOW PROPERTIES;", streamsProperties={"ksql.streams.auto.offset.reset": "latest"}
    )
    assert shown["overwrittenProperties"] == ["auto.offset.reset"]
    error = shop.refused("SHOW PROPERTIES;", streamsProperties={"nonsense": 1})
    assert (error["@type"], error["error_code"]) == ("generic_error", 40000)


HOST = {"host": "n1", "port": 8088}


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/heartbeat", {"hostInfo": HOST, "timestamp": 1700000000000}, 200),
        ("/heartbeat", {"hostInfo": HOST}, 400),
        ("/heartbeat", {"hostInfo": HOST, "timestamp": True}, 400),
        ("/heartbeat", {"hostInfo": {"host": "n1"}, "timestamp": 1}, 400),
        ("/heartbeat", {"hostInfo": {"host": "n1", "port": "8088"}, "timestamp": 1}, 400),
        ("/heartbeat", {"ksqlHost": HOST, "timestamp": 1}, 400),
        ("/heartbeat", [], 400),
        ("/lag", {"ksqlHost": HOST, "hostStoreLags": {"stateStoreLags": {}}}, 200),
        ("/lag", {"ksqlHost": HOST}, 400),
        ("/lag", {"ksqlHost": HOST, "hostStoreLags": []}, 400),
        ("/lag", {"ksqlHost": None, "hostStoreLags": {}}, 400),
    ],
)
def test_requests_between_servers_of_ksqldb(
    door: RunningServer, path: str, body: object, status: int
) -> None:
    answer = door.http.post(path, json=body)
    assert answer.status_code == status
    if status == 200:
        assert answer.json() == {"ok": True}
    else:
        assert answer.json()["error_code"] == 40000


@pytest.mark.parametrize("path", ["/heartbeat", "/lag"])
def test_what_is_for_other_servers_is_for_their_listener(door: RunningServer, path: str) -> None:
    door.server.settings = replace(door.server.settings, internal_listener="127.0.0.1:1")
    body = {"hostInfo": HOST, "timestamp": 1, "ksqlHost": HOST, "hostStoreLags": {}}
    answer = door.http.post(path, json=body)
    assert (answer.status_code, answer.json()["error_code"]) == (400, 40005)


def test_a_command_is_waited_for(door: RunningServer) -> None:
    (made,) = door.ksql(MADE)
    assert door.ksql("SHOW STREAMS;", commandSequenceNumber=made["commandSequenceNumber"])


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/ksql", b"{", 400),
        ("POST", "/ksql", b'{"ksql": 3}', 400),
        ("GET", "/nothing", None, 404),
        ("GET", "/ksql", None, 405),
        ("POST", "/heartbeat", b"{}", 400),
        ("POST", "/close-query", b'{"queryId": "x"}', 400),
        ("POST", "/inserts-stream", b'{"target": "S"}', 400),
        ("GET", "/is_valid_property/nonsense", None, 400),
        ("GET", "/is_valid_property/auto.offset.reset", None, 200),
        ("GET", "/info", None, 200),
        ("GET", "/healthcheck", None, 200),
        ("GET", "/clusterStatus", None, 200),
        ("GET", "/v1/metadata", None, 200),
        ("GET", "/v1/metadata/id", None, 200),
        ("GET", "/chc/ready", None, 200),
        ("GET", "/chc/live", None, 200),
        ("GET", "/metrics", None, 200),
        ("GET", "/openapi.json", None, 200),
        ("GET", "/", None, 307),
    ],
)
def test_each_path_answers(
    door: RunningServer, method: str, path: str, body: bytes | None, status: int
) -> None:
    assert door.http.request(method, path, content=body).status_code == status


PLAIN_TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("", PLAIN_TEXT),
        ("*/*", PLAIN_TEXT),
        ("text/html", PLAIN_TEXT),
        ("text/plain, application/openmetrics-text;q=0.5", PLAIN_TEXT),
        ("application/openmetrics-text;version=x", OPENMETRICS),
        (PROMETHEUS, OPENMETRICS),
    ],
)
def test_metrics_have_the_format_that_the_scraper_prefers(
    door: RunningServer, accept: str, content_type: str
) -> None:
    answer = door.http.get("/metrics", headers={"accept": accept})
    assert answer.status_code == 200
    assert answer.headers["content-type"] == content_type
    assert answer.text.endswith("# EOF\n") == (content_type == OPENMETRICS)


def test_what_is_not_accepted(door: RunningServer) -> None:
    assert door.http.get("/info", headers={"accept": "text/html"}).status_code == 406


def test_the_service_is_destroyed(shop: RunningServer) -> None:
    shop.ksql("CREATE STREAM more AS SELECT * FROM orders;")
    answer = shop.http.post("/ksql/terminate", json={"deleteTopicList": ["SPEND.*"]})
    (entity,) = answer.json()
    assert entity["commandStatus"]["status"] == "SUCCESS"
    names: list[Any] = [topic.name for topic in shop.engine.log.topics()]
    assert "SPENDING" not in names and {"MORE", "orders"} <= set(names)
    assert not shop.engine.catalog.sources and not shop.engine.catalog.queries
    assert shop.refused("SHOW STREAMS;")["error_code"] == 50304
    assert shop.http.get("/info").status_code == 200


MANY = (
    MADE,
    "CREATE STREAM copied AS SELECT * FROM s;",
    "CREATE TYPE place AS STRUCT<x INT>;",
    "DROP TYPE place;",
    "ALTER STREAM s ADD COLUMN w INT;",
    "INSERT INTO copied SELECT id, v FROM s;",
    "PAUSE CSAS_COPIED_1;",
    "RESUME CSAS_COPIED_1;",
    "TERMINATE INSERTQUERY_5;",
    "CREATE STREAM other AS SELECT * FROM s;",
    "DROP STREAM other;",
)


def statuses(door: Served) -> dict[str, Any]:
    with httpx.Client(base_url=door.url, verify=NO_AUTHORITIES, timeout=PATIENCE_S) as client:
        known = client.get("/status").json()["commandStatuses"]
        found = {command: client.get(f"/status/{command}").json() for command in known}
    assert {command: status["status"] for command, status in found.items()} == known
    return found


def test_statuses_outlive_the_server(tmp_path: Path) -> None:
    path = str(tmp_path / "shop.db")
    with closing(open_engine(path, EngineSettings(), now_ms)) as engine, served(engine) as door:
        engine.start()
        with httpx.Client(base_url=door.url, verify=NO_AUTHORITIES, timeout=PATIENCE_S) as client:
            given = [
                client.post("/ksql", json={"ksql": text}).raise_for_status().json() for text in MANY
            ]
        told = {entity["commandId"]: entity["commandStatus"] for (entity,) in given}
        assert statuses(door) == told
    with closing(open_engine(path, EngineSettings(), now_ms)) as engine, served(engine) as door:
        assert engine.command_topic.state.replayed < len(MANY), "it has begun with a snapshot"
        assert statuses(door) == told
        with httpx.Client(base_url=door.url, verify=NO_AUTHORITIES, timeout=PATIENCE_S) as client:
            assert client.get("/status/table/OTHER/create").status_code == 404


def test_a_command_that_fails_here_has_a_status(shop: RunningServer) -> None:
    command = Command("DROP STREAM nothing;", {}, number=99)
    with shop.engine.command_topic.log.lease(0) as lease:
        lease.append(
            [command],
            shop.engine.command_topic.state.previous,
            0,
            shop.engine.command_topic.state.position,
        )
    told = shop.http.get("/status/stream/NOTHING/drop").json()
    assert told["status"] == "ERROR"
    assert "NOTHING does not exist" in told["message"]


def neighbour(name: str, state: str, *, alive: bool = True) -> PeerHost:
    held = HostedPartitions(frozenset({0}), {1: 7})
    query = "CTAS_SPENDING_1"
    said = InstanceMetadata(
        name, f"{name}1", "h:1", {query: held}, host=name, states={query: state}
    )
    return PeerHost(said, alive, 5)


def test_queries_are_counted_over_the_instances(shop: RunningServer) -> None:
    others = (
        neighbour("b:8088", "RUNNING"),
        neighbour("c:8088", "ERROR"),
        neighbour("d:8088", "ERROR", alive=False),
    )
    shop.engine.cluster.host_info.peers = lambda: others
    ((query,),) = (entity["queries"] for entity in shop.ksql("SHOW QUERIES;"))
    assert query["statusCount"] == {"RUNNING": 2, "ERROR": 1}
    assert query["state"] == "ERROR"
    (described,) = shop.ksql("EXPLAIN CTAS_SPENDING_1;")
    hosts = described["queryDescription"]["ksqlHostQueryStatus"]
    assert hosts == {"localhost:8088": "RUNNING", "b:8088": "RUNNING", "c:8088": "ERROR"}


def test_explain_of_a_program_has_a_field_of_its_own(shop: RunningServer) -> None:
    """ksqlDB's entity has no such field, so it is there for this stage alone."""
    new = "CREATE TABLE again AS SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer"
    for of in ("CTAS_SPENDING_1", new):
        (entity,) = shop.ksql(f"EXPLAIN (PROGRAM) {of};")
        shown = entity["queryDescription"]
        assert "-- sub-topology 0 (" in shown["program"]
        assert 'CREATE TABLE IF NOT EXISTS "sub_topology_0"' in shown["program"]
        assert "Topology " in shown["topology"]
        (entity,) = shop.ksql(f"EXPLAIN {of};")
        assert entity["queryDescription"] | {"program": shown["program"]} == shown


def test_explain_of_a_pull_query_shows_the_offsets(shop: RunningServer) -> None:
    for text in ("SELECT * FROM spending;", "SELECT (SELECT COUNT(*) FROM spending) AS n;"):
        (entity,) = shop.ksql(f"EXPLAIN {text}")
        described = entity["queryDescription"]
        assert described["queryType"] == "PULL"
        assert described["statementText"] == text.rstrip(";")
        assert "CTAS_SPENDING_1 (keeps SPENDING)" in described["executionPlan"]


def test_the_status_of_the_cluster(shop: RunningServer) -> None:
    others = (neighbour("b:8088", "RUNNING"), neighbour("d:8088", "RUNNING", alive=False))
    shop.engine.cluster.host_info.peers = lambda: others
    found = shop.http.get("/clusterStatus").json()["clusterStatus"]
    assert {host: status["hostAlive"] for host, status in found.items()} == {
        "localhost:8088": True,
        "b:8088": True,
        "d:8088": False,
    }
    there = found["b:8088"]
    assert there["lastStatusUpdateMs"] == 5
    assert there["activeStandbyPerQuery"]["CTAS_SPENDING_1"] == {
        "activeStores": ["0"],
        "activePartitions": [{"topic": "orders", "partition": 0}],
        "standByStores": ["0"],
        "standByPartitions": [{"topic": "orders", "partition": 1}],
    }
    (lags,) = there["hostStoreLags"]["stateStoreLags"].values()
    assert lags == {"lagByPartition": {"0": {"offsetLag": 0}, "1": {"offsetLag": 7}}, "size": 2}


def test_a_file_has_an_id_of_its_own(door: RunningServer) -> None:
    found = door.http.get("/info").json()["KsqlServerInfo"]["kafkaClusterId"]
    scope = door.http.get("/v1/metadata/id").json()["scope"]
    assert found and scope["clusters"]["kafka-cluster"] == found

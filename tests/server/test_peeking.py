"""PEEK over HTTP, and in the shell of a remote server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

import millstream
from millstream import Processor, ProcessorContext, Record, Topology
from millstream.remote.http import Credentials
from millstream_cli.sessions.remote import RemoteSession
from millstream_cli.sessions.results import ResultTable
from tests.served import Served, served


class Doubled(Processor):
    output = "id INT KEY, n INT"

    def init(self, context: ProcessorContext) -> None:
        self.context = context

    def process(self, record: Record) -> None:
        self.context.forward(record.key, {"N": 2 * record.value["N"]})


TOPOLOGY = (
    Topology()
    .add_source("numbers", "numbers", key="id INT", value="n INT", partitions=1)
    .add_processor("double", Doubled, "numbers")
    .add_sink("doubled", "doubled", "double")
)


@pytest.fixture
def running() -> Iterator[Served]:
    properties = {"auto.offset.reset": "earliest"}
    with millstream.connect(properties=properties) as database:
        database.deploy(TOPOLOGY, "doubling")
        database.insert("numbers", [(1, 7), (2, 8)])
        database.wait()
        with served(database.engine) as found:
            yield found


QUERY = "CSAS_DOUBLED_1"


def asked(running: Served, path: str, sql: str) -> Any:
    key = "ksql" if path != "/query-stream" else "sql"
    return httpx.post(running.url + path, json={key: sql}).json()


def test_as_a_query(running: Served) -> None:
    header, *rows = asked(running, "/query", f"PEEK {QUERY} AT doubled;")
    assert (
        header["header"]["schema"]
        == "`ROWTIME` BIGINT, `PARTITION` INTEGER, `KEY` STRING, `VALUE` STRING"
    )
    assert [row["row"]["columns"][2:] for row in rows if "row" in row] == [
        ["1", '{"N": 14}'],
        ["2", '{"N": 16}'],
    ]


def test_not_as_a_statement(running: Served) -> None:
    refused = asked(running, "/ksql", f"PEEK {QUERY} AT doubled;")
    assert refused["error_code"] == 40002 and "/query" in refused["message"]


def test_errors(running: Served) -> None:
    assert "has no node doubl" in asked(running, "/query", f"PEEK {QUERY} AT doubl;")["message"]
    assert "no query NOWHERE" in asked(running, "/query", "PEEK nowhere AT double;")["message"]


def test_in_the_shell(running: Served) -> None:
    session = RemoteSession.connect(running.url, Credentials())
    (shown,) = session.run(f"peek {QUERY.lower()} at numbers limit 1")
    assert isinstance(shown, ResultTable)
    assert shown.columns == ["ROWTIME", "PARTITION", "KEY", "VALUE"]
    assert [row[2:] for row in shown.rows] == [("2", '{"N": 8}')]
    session.close()

"""Statements sent to a server, and the handling of its responses."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from millstream.model.errors import MillstreamError
from millstream.remote.http import Credentials
from millstream_cli.main import main
from millstream_cli.prompt.shell import process
from millstream_cli.prompt.terminal import Terminal
from millstream_cli.screen.output import Output
from millstream_cli.sessions import remote
from millstream_cli.sessions.remote import RemoteSession
from millstream_cli.sessions.results import Live, Message, Outcome, QueryStatus, ResultTable
from tests.patience import PATIENCE_S
from tests.shell.served import Served

HEADER = {"header": {"queryId": "q1", "schema": "`K` STRING KEY, `N` BIGINT"}}


def done(message: str, number: int) -> dict[str, Any]:
    status = {"status": "SUCCESS", "message": message, "queryId": None}
    return {"@type": "currentStatus", "commandStatus": status, "commandSequenceNumber": number}


def answer(text: str) -> tuple[int, Any]:
    if "BROKEN" in text:
        return 400, {
            "@type": "statement_error",
            "error_code": 40001,
            "message": "line 2:6: mismatched input",
            "statementText": "CREATE\nTYPE BROKEN;",
            "entities": [done("Type made", 3)],
        }
    if "LATE" in text:
        failed = {"status": "ERROR", "message": "Out of luck"}
        return 200, [{"@type": "currentStatus", "commandStatus": failed}]
    if "CREATE" in text:
        return 200, [done("Stream created", 7)]
    if "STREAMS" in text:
        stream = {"name": "S", "topic": "s", "keyFormat": "KAFKA", "valueFormat": "JSON"}
        warnings = [{"message": "old"}]
        streams = [{**stream, "isWindowed": False}]
        return 200, [{"@type": "streams", "streams": streams, "warnings": warnings}]
    return 200, []


@pytest.fixture
def served() -> Iterator[Served]:
    with Served(answer) as server:
        yield server


@pytest.fixture
def session(served: Served) -> RemoteSession:
    return RemoteSession.connect(served.url + "/", Credentials("me", "secret"))


def run(session: RemoteSession, text: str) -> list[Outcome]:
    return list(session.run(text))


def sent(served: Served, path: str) -> list[Any]:
    return [body for _, where, body, _ in served.requests if where == path]


def test_statements_are_sent_together_and_in_order(served: Served, session: RemoteSession) -> None:
    found = run(
        session,
        "CREATE STREAM s (k INT);\nSHOW STREAMS; SET 'auto.offset.reset' = 'earliest'; "
        "DEFINE name = 's'; DROP STREAM ${name};",
    )
    assert [type(item) for item in found] == [Message, Message, Message, Message]
    first, second = sent(served, "/ksql")
    assert first["ksql"] == "CREATE STREAM s (k INT);\nSHOW STREAMS;\n"
    assert first["streamsProperties"] == {} and "commandSequenceNumber" not in first
    assert second["ksql"] == "DROP STREAM s;\n"
    assert second["streamsProperties"] == {"auto.offset.reset": "earliest"}
    assert second["commandSequenceNumber"] == 7
    session.pipelining = True
    run(session, "SHOW STREAMS;")
    assert "commandSequenceNumber" not in sent(served, "/ksql")[-1]
    headers = served.requests[0][3]
    assert headers["Authorization"] == "Basic bWU6c2VjcmV0"


def test_the_progress_of_a_query_over_history_is_reported(
    served: Served, session: RemoteSession
) -> None:
    served.stages = ({"name": "stage 3", "done": 2, "total": 8},)
    told: list[tuple[str, int, int | None]] = []

    def progress(done: int, total: int | None, name: str = "rows") -> None:
        told.append((name, done, total))
        served.rows.put(None)

    served.rows.put(HEADER)
    [found] = session.run("SELECT k, n FROM s;", progress)
    assert isinstance(found, ResultTable) and found.rows == []
    assert told[0] == ("stage 3", 2, 8)


def test_settings_stay_here(served: Served, session: RemoteSession) -> None:
    run(session, "SET 'auto.offset.reset' = 'latest';")
    [said] = run(session, "SET 'auto.offset.reset' = 'earliest';")
    assert isinstance(said, Message) and "from 'latest' to 'earliest'" in said.text
    with pytest.raises(MillstreamError, match="Not a property"):
        run(session, "SET 'nonsense' = '1';")
    run(session, "UNSET 'auto.offset.reset';")
    with pytest.raises(MillstreamError, match="was not set"):
        run(session, "UNSET 'auto.offset.reset';")
    run(session, "DEFINE a = '1';")
    [variables] = run(session, "SHOW VARIABLES;")
    assert isinstance(variables, ResultTable) and variables.rows == [("A", "1")]
    [gone] = run(session, "UNDEFINE b;")
    assert isinstance(gone, Message) and gone.warning
    assert sent(served, "/ksql") == []


def test_an_error_shows_what_was_done_before(session: RemoteSession) -> None:
    out = Output(Console(file=io.StringIO(), width=80))
    process(Terminal(session, out, out), "CREATE TYPE a AS INT; CREATE\nTYPE BROKEN;")
    file = out.screen.file
    assert isinstance(file, io.StringIO)
    assert file.getvalue().splitlines() == [
        "Type made",
        "line 2:6: mismatched input",
        "TYPE BROKEN;",
        "     ^^^^^^",
    ]
    with pytest.raises(MillstreamError, match="Out of luck"):
        run(session, "DROP LATE;")


def test_a_pull_query(served: Served, session: RemoteSession) -> None:
    for item in (HEADER, {"row": {"columns": ["a", 1]}}, {"row": {"columns": ["b", None]}}, None):
        served.rows.put(item)
    [rows] = run(session, "SELECT * FROM t;")
    assert isinstance(rows, ResultTable) and rows.query
    assert (rows.columns, rows.rows) == (["K", "N"], [("a", 1), ("b", None)])


def test_many_rows_are_shown_as_they_come(
    served: Served, session: RemoteSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "TABLE_ROWS_MAX", 2)
    for item in (HEADER, *({"row": {"columns": ["a", n]}} for n in range(3))):
        served.rows.put(item)
    [live] = run(session, "SELECT * FROM s;")
    assert isinstance(live, Live)
    served.rows.put(None)
    assert [list(batch) for batch in live.batches] == [[("a", 0), ("a", 1)], [("a", 2)]]


def test_a_query_that_is_refused(served: Served, session: RemoteSession) -> None:
    served.rows.put((400, {"error_code": 40001, "message": "Line: 1, Col: 15: no such T"}))
    with pytest.raises(MillstreamError, match="no such T") as caught:
        run(session, "SELECT * FROM tt;")
    assert caught.value.detail == "SELECT * FROM tt;\n              ^"


def test_print(served: Served, session: RemoteSession) -> None:
    served.lines = ("Key format: KAFKA_STRING", "rowtime: 2024, key: a")
    [live] = run(session, "PRINT 's' FROM BEGINNING LIMIT 1;")
    assert isinstance(live, Live)
    assert [row for batch in live.batches for row in batch] == [(line,) for line in served.lines]


def test_status_and_names(served: Served, session: RemoteSession) -> None:
    stream = {
        "name": "S",
        "type": "STREAM",
        "fields": [
            {"name": "K", "type": "KEY", "schema": {"type": "STRING"}},
            {"name": "A", "schema": {"type": "ARRAY", "memberSchema": {"type": "BIGINT"}}},
        ],
    }
    queries = [{"id": "Q1", "queryType": "PERSISTENT", "state": "RUNNING"}]

    def told(text: str) -> tuple[int, Any]:
        if text.startswith("LIST"):
            return 200, [{"@type": "source_descriptions", "sourceDescriptions": [stream]}]
        return 200, [{"@type": "queries", "queries": queries}]

    served.answers = told
    problems = 'millstream_query_problems_total{kind="%s",query="%s"} %d\n'
    served.figures = '# HELP x\nmillstream_query_lag_records{query="Q1"} 42\n' + "".join(
        problems % each
        for each in (
            ("EXPRESSION", "Q1", 3),
            ("LATE", "Q1", 5),
            ("NULL_KEY", "Q1", 4),
            ("X", "Q2", 9),
        )
    )
    assert session.status().queries == (QueryStatus("Q1", "RUNNING", 42, skipped=7),)
    [column_k, column_a] = session.names().sources["S"].columns
    assert column_k.key and column_a.type == "ARRAY<BIGINT>"
    served.figures = ""
    assert session.status().lag is None


@pytest.mark.parametrize(
    ("items", "columns", "rows"),
    [
        (
            [{"queryId": "Q1", "endedAt": 5, "sinks": ["A", "B"]}],
            ["Query ID", "Ended At", "Sinks"],
            [("Q1", 5, "A, B")],
        ),
        ([], ["Things"], []),
    ],
)
def test_a_list_of_an_unknown_kind_is_a_table(
    served: Served,
    session: RemoteSession,
    items: list[dict[str, Any]],
    columns: list[str],
    rows: list[tuple[Any, ...]],
) -> None:
    entity = {"@type": "things", "statementText": "LIST", "things": items, "warnings": []}
    served.answers = lambda text: (200, [entity])
    [shown] = run(session, "LIST TOPICS;")
    assert isinstance(shown, ResultTable)
    assert (shown.columns, shown.rows) == (columns, rows)


def test_inserts_are_counted(session: RemoteSession) -> None:
    [said] = run(session, "INSERT INTO s VALUES (1); INSERT INTO s VALUES (2);")
    assert isinstance(said, Message) and said.text == "2 rows inserted"


def test_as_a_process(served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for item in (HEADER, {"row": {"columns": ["a", 1]}}, {"finalMessage": "Limit Reached"}, None):
        served.rows.put(item)
    script = tmp_path / "a.sql"
    script.write_text("OUTPUT CSV;\nSELECT * FROM t EMIT CHANGES LIMIT 1;\nSHOW STREAMS;")
    config = tmp_path / "client.properties"
    config.write_text("# mine\nauto.offset.reset = earliest\nssl.ca.location=/none\n")
    options = ["--config-file", str(config), "-t", "abc", served.url, "-f", str(script)]
    assert main(options) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["Output format: CSV", "K,N", "a,1"]
    assert lines[3:] == [
        "Stream Name,Kafka Topic,Key Format,Value Format,Windowed",
        "S,s,KAFKA,JSON,false",
        "WARNING: old",
    ]
    assert sent(served, "/query")[0]["streamsProperties"] == {"auto.offset.reset": "earliest"}
    assert served.requests[0][3]["Authorization"] == "Bearer abc"
    assert main([served.url, "-e", "CREATE TYPE BROKEN;"]) == 1


@pytest.mark.parametrize(
    ("limit", "wanted"),
    [
        (["--query-row-limit", "1"], "Limit Reached"),
        (["--query-timeout", "1"], "Query terminated"),
    ],
)
def test_limits_of_the_shell(
    served: Served, limit: list[str], wanted: str, capsys: pytest.CaptureFixture[str]
) -> None:
    served.rows.put(HEADER)
    served.rows.put({"row": {"columns": ["a", 1]}})
    served.rows.put({"row": {"columns": ["b", 1]}})
    assert main([*limit, served.url, "-e", "SELECT * FROM t EMIT CHANGES;"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[-1] == wanted
    assert "| b" not in out or wanted == "Query terminated"
    assert served.closed.wait(PATIENCE_S)


def test_an_unreachable_server(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["http://127.0.0.1:9", "-e", "SHOW STREAMS;"]) == 1
    assert "Cannot reach the server" in capsys.readouterr().err

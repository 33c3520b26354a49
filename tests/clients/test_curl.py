"""curl over HTTP/2 without TLS, by prior knowledge and by upgrade: the same session."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from tests.clients.places import need
from tests.patience import PATIENCE_S

CREATE = (
    "CREATE STREAM orders (id INT KEY, qty INT)"
    " WITH (kafka_topic='orders', value_format='json', partitions=1);"
    "CREATE TABLE totals AS SELECT id, SUM(qty) AS total FROM orders GROUP BY id;"
)
ROWS = '{"target":"orders"}\n{"ID":1,"QTY":2}\n{"ID":1,"QTY":3}\n{"ID":2,"QTY":7}'


def command(url: str, body: str, *more: str) -> tuple[str, ...]:
    """curl that posts a body."""
    options = ("-sS", "-N", "--http2-prior-knowledge", "--max-time", str(PATIENCE_S))
    return ("curl", *options, *more, "--data-binary", body, url)


def sent(url: str, path: str, body: Any) -> str:
    """An answer that ends."""
    text = body if isinstance(body, str) else json.dumps(body)
    done = subprocess.run(command(url + path, text), capture_output=True, text=True, check=True)
    return done.stdout


def test_a_session(url: str) -> None:
    need("curl")
    created = json.loads(sent(url, "/ksql", {"ksql": CREATE}))
    query_id = created[1]["commandStatus"]["queryId"]
    answers = [json.loads(line) for line in sent(url, "/inserts-stream", ROWS).splitlines()]
    assert answers == [{"status": "ok", "seq": number} for number in range(3)]
    pull = {"sql": "SELECT id, total FROM totals WHERE id = 1;"}
    while (rows := sent(url, "/query-stream", pull).splitlines()[1:]) != ["[1,5]"]:
        assert rows in ([], ["[1,2]"])
    push = json.dumps(
        {
            "sql": "SELECT id, qty FROM orders EMIT CHANGES;",
            "properties": {"auto.offset.reset": "earliest"},
        }
    )
    with subprocess.Popen(
        command(f"{url}/query-stream", push), stdout=subprocess.PIPE, text=True
    ) as pushing:
        assert pushing.stdout is not None
        pushed = json.loads(pushing.stdout.readline())["queryId"]
        assert [pushing.stdout.readline() for _ in range(3)] == ["[1,2]\n", "[1,3]\n", "[2,7]\n"]
        assert sent(url, "/close-query", {"queryId": pushed}) == ""
        assert pushing.stdout.readline() == ""
    assert pushing.returncode == 0
    (ended,) = json.loads(sent(url, "/ksql", {"ksql": f"TERMINATE {query_id};"}))
    assert ended["commandStatus"]["status"] == "SUCCESS"


@pytest.mark.parametrize("option", ["--http2-prior-knowledge", "--http2"])
def test_http2_without_tls(url: str, option: str) -> None:
    need("curl")
    asking = ("curl", "-sS", option, "-o", "/dev/null", "-w", "%{http_version} %{http_code}")
    done = subprocess.run((*asking, f"{url}/info"), capture_output=True, text=True, check=True)
    assert done.stdout == "2 200"

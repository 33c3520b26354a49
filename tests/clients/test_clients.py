"""Published clients, as they are: create, insert, pull, push, terminate."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.clients.places import HERE, need, node_modules, python_of
from tests.patience import PATIENCE_S

SEEN = {
    "streams": ["KSQL_PROCESSING_LOG", "ORDERS"],
    "acknowledged": ["ok", "ok", "ok"],
    "pulled": [[1, 5]],
    "pushed": [[1, 2], [1, 3], [2, 7]],
    "ended": True,
    "limited": [[1, 2], [1, 3]],
    "unknown": False,
    "refused": 40001,
    "properties": True,
    "terminated": "SUCCESS",
}


def session(command: tuple[str | Path, ...], more: Mapping[str, str]) -> dict[str, Any]:
    """The output of a client's session."""
    done = subprocess.run(
        tuple(str(part) for part in command),
        env={**os.environ, **more},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_ksql(url: str) -> None:
    need("ksql")
    command = (python_of("ksql"), HERE / "with_ksql.py", url)
    assert session(command, {"PYTHONPATH": str(HERE / "compat")}) == SEEN


def test_ksqldb(url: str) -> None:
    need("ksqldb")
    command = (python_of("ksqldb"), HERE / "with_ksqldb.py", url)
    assert session(command, {"PYTHONPATH": ""}) == {**SEEN, "refused": 400}


def test_ksqldb_client(url: str) -> None:
    need("ksqldb-client")
    command = ("node", HERE / "with_ksqldb_client.js", url)
    assert session(command, {"NODE_PATH": str(node_modules())}) == SEEN


def test_jupysql() -> None:
    need("jupysql")
    command = (python_of("jupysql"), HERE / "with_jupysql.py")
    assert session(command, {"PYTHONPATH": ""}) == {
        "listed": [["ann", 6], ["bob", 7]],
        "named": [[6]],
        "streams": ["KSQL_PROCESSING_LOG", "ORDERS"],
        "wrong": ["ProgrammingError", True],
    }

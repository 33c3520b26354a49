"""`millstream server start`, as a process: its settings, its listeners, its end."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from millstream.model.errors import StatementError, UnavailableError
from millstream_cli.main import main
from millstream_server.bootstrap.addresses import Address, read_address
from millstream_server.bootstrap.config import load_config
from millstream_server.bootstrap.startup import open_database, server_settings
from millstream_server.http.listening import Tls, bind
from tests.certified import authority
from tests.patience import PATIENCE_S
from tests.served import NO_AUTHORITIES

ANY = "http://127.0.0.1:0"


@contextmanager
def started(*arguments: str, **environment: str) -> Iterator[httpx.Client]:
    """A server that runs, and a client of it; it is stopped at the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "millstream_cli.main", "server", "start", *arguments],
        env={**os.environ, **environment},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    with process:
        try:
            lines = iter(process.stderr.readline, "")
            found = next(filter(None, (re.search(r"listens on (\S+?)[.,] ", x) for x in lines)))
            with httpx.Client(
                base_url=found[1], verify=NO_AUTHORITIES, timeout=PATIENCE_S
            ) as client:
                yield client
        finally:
            process.send_signal(signal.SIGTERM)
            last = process.stderr.read()
    assert process.returncode == 0
    assert "leaked" not in last


def test_flags_beat_the_environment_and_that_the_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        "# what we sell\nksql.service.id=file_\nlisteners=http://127.0.0.1:1\n"
        f"ksql.streams.state.dir={tmp_path / 'state'}\nksql.streams.auto.offset.reset:earliest\n"
    )
    with started(str(file), "--listener", ANY, KSQL_KSQL_SERVICE_ID="environment_") as client:
        about = client.get("/info").json()["KsqlServerInfo"]
        assert about["ksqlServiceId"] == "environment_"
        shown = client.post("/ksql", json={"ksql": "SHOW PROPERTIES;"}).json()[0]["properties"]
        assert {"auto.offset.reset": "earliest"}.items() <= {
            item["name"]: item["value"] for item in shown
        }.items()
    assert (tmp_path / "state" / "millstream.db").exists()


def test_a_script_is_all_that_a_headless_server_runs(tmp_path: Path) -> None:
    script = tmp_path / "queries.sql"
    script.write_text(
        "CREATE STREAM s (a INT KEY, b INT) WITH (kafka_topic='s', format='KAFKA', partitions=1);"
        "CREATE STREAM t AS SELECT * FROM s;"
    )
    folder = str(tmp_path / "state")
    arguments = ("--listener", ANY, "--state-dir", folder, "--queries-file", str(script))
    for _ in range(2):
        with started(*arguments) as client:
            answer = client.post("/ksql", json={"ksql": "SHOW STREAMS;"}).json()
            names = {stream["name"] for stream in answer[0]["streams"]}
            assert names == {"S", "T", "KSQL_PROCESSING_LOG"}
            refused = client.post("/ksql", json={"ksql": "CREATE TYPE x AS INT;"})
            assert refused.status_code == 400


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--listener", "http://0.0.0.0:0"), "Refusing to listen"),
        (("--property", "authentication.method=BASIC"), "needs authentication.users.file"),
        (("--listener", "https://127.0.0.1:0"), "needs a certificate"),
    ],
)
def test_insecure_listeners_are_refused(
    flags: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["server", "start", *flags]) == 1
    assert said in capsys.readouterr().err


def test_a_listener_may_be_insecure_if_configured() -> None:
    with started("--listener", "http://0.0.0.0:0", "--insecure-i-know") as client:
        assert client.get("/info").status_code == 200


def test_a_line_of_the_users_file_lets_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("canary\n"))
    assert main(["server", "user", "ann", "admin"]) == 0
    line = capsys.readouterr().out
    users = tmp_path / "users"
    users.write_text(line)
    users.chmod(0o600)
    audit = tmp_path / "audit.log"
    flags = (
        *("--listener", ANY, "--property", "authentication.method=BASIC"),
        *("--property", f"authentication.users.file={users}"),
        *("--property", f"millstream.audit.file={audit}"),
    )
    with started(*flags) as client:
        assert client.get("/info").status_code == 401
        assert client.get("/metrics", auth=("ann", "canary")).status_code == 200
    lines = audit.read_text()
    assert '"started"' in lines and '"E-AUTH"' in lines and '"stopped"' in lines
    assert "canary" not in line + lines


@pytest.mark.parametrize("url", ["", "127.0.0.1:80", "ftp://x:1", "http://:1", "http://x:y"])
def test_what_is_no_listener(url: str) -> None:
    with pytest.raises(StatementError, match="is no listener"):
        read_address(url)


def test_an_address_that_is_taken() -> None:
    listener = bind(Address("127.0.0.1", 0, False))
    try:
        with pytest.raises(UnavailableError, match="Cannot listen"):
            bind(read_address(listener.url))
    finally:
        listener.bound.close()


def test_certificates_that_cannot_be_used(tmp_path: Path) -> None:
    file = str(authority("ours", tmp_path).signed("server", tmp_path, "canary-of-the-key"))
    assert Tls(file, file, "canary-of-the-key").context()
    for tls in (Tls(file, file), Tls(file, file, "guess"), Tls("/nowhere", "/nowhere")):
        with pytest.raises(StatementError, match="cannot be used") as caught:
            tls.context()
        assert "canary" not in str(caught.value)


def test_the_files_lie_in_the_folder(tmp_path: Path) -> None:
    config = load_config(flags={"ksql.streams.state.dir": str(tmp_path / "state")})
    with open_database(config) as database:
        database.execute("CREATE TYPE t AS INT;")
    assert (tmp_path / "state" / "millstream.db").exists()
    with open_database(config) as database:
        assert "T" in database.engine.catalog.types


def test_other_servers_have_a_listener_of_their_own() -> None:
    listener = bind(Address("127.0.0.1", 0, False))
    try:
        for flags in ({}, {"ksql.internal.listener": "127.0.0.1:8090"}):
            found = server_settings(load_config(flags=flags), listener).internal_listener
            assert found == flags.get("ksql.internal.listener", "")
    finally:
        listener.bound.close()

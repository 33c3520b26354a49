"""`millstream migrations`, over a file and over a server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

import millstream
from millstream.model.clock import now_ms
from millstream.model.settings import EngineSettings
from millstream.service.execution import open_engine
from millstream_cli.main import main
from millstream_cli.migrations import files, metadata
from tests.served import served

STREAM = (
    "CREATE STREAM s (k STRING KEY, n INT) WITH (KAFKA_TOPIC='s', PARTITIONS=1, FORMAT='JSON');"
)


class Project:
    """A project, and what its command prints."""

    def __init__(self, folder: Path, url: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.url = folder, url
        self._capsys = capsys

    def run(self, *words: str, status: int = 0) -> str:
        config = str(self.folder / files.PROPERTIES)
        assert main(["migrations", "-c", config, *words]) == status, self._capsys.readouterr()
        told = self._capsys.readouterr()
        return told.out + told.err

    def write(self, name: str, text: str) -> None:
        (self.folder / files.FOLDER / name).write_text(text, encoding="utf-8")

    @contextmanager
    def database(self) -> Iterator[millstream.Database]:
        with millstream.connect(self.url) as found:
            yield found

    def names(self) -> set[str]:
        with self.database() as db:
            rows = [*db.execute("SHOW STREAMS;"), *db.execute("SHOW TABLES;")]
            return {value for row in rows for value in row}


@pytest.fixture(params=["file", "server"])
def project(
    request: pytest.FixtureRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Iterator[Project]:
    folder = tmp_path / "project"
    if request.param == "file":
        made = Project(folder, str(tmp_path / "shop.db"), capsys)
        assert main(["migrations", "new-project", str(folder), made.url]) == 0
        yield made
        return
    engine = open_engine(":memory:", EngineSettings(threads=1), now_ms)
    engine.start()
    with served(engine) as door:
        assert main(["migrations", "new-project", str(folder), door.url]) == 0
        yield Project(folder, door.url, capsys)
    engine.close()


def test_a_project_from_its_beginning(project: Project) -> None:
    assert "V000001__Orders_of_the_shop.sql" in project.run("create", "Orders of the shop")
    project.write("V000001__Orders_of_the_shop.sql", STREAM)
    assert "V000002__sums.sql" in project.run("create", "sums")
    project.write(
        "V000002__sums.sql",
        "-- both; together\nCREATE TABLE t AS SELECT k, SUM(n) AS n FROM s GROUP BY k;"
        "INSERT INTO s VALUES ('a;b', 1);",
    )
    assert "initialize-metadata" in project.run("info", status=1)
    project.run("initialize-metadata")
    assert project.run("info").count("PENDING") == 2
    assert "Version 1 migrated" in project.run("apply", "--next")
    told = project.run("info")
    assert "Current migration version: 1" in told
    assert told.count("MIGRATED") == 1 and told.count("PENDING") == 1
    assert "CREATE TABLE t" in project.run("apply", "--all", "--dry-run")
    assert "T" not in project.names()
    project.run("apply", "--all")
    assert {"S", "T"} <= project.names()
    assert "Nothing is to be applied" in project.run("apply", "--all")
    assert "as they were" in project.run("validate")
    project.run("destroy-metadata")
    assert not {"MIGRATION_EVENTS", "MIGRATION_SCHEMA_VERSIONS"} & project.names()
    assert {"S", "T"} <= project.names()


def test_one_that_fails_stops_and_is_repeated(project: Project) -> None:
    project.run("initialize-metadata")
    project.write("V000001__a.sql", STREAM + "CREATE STREAM s (k INT) WITH (KAFKA_TOPIC='s');")
    project.write("V000002__b.sql", "CREATE TYPE later AS INT;")
    project.run("apply", "--all", status=1)
    told = project.run("info")
    assert "ERROR" in told and told.count("PENDING") == 1 and "<none>" in told
    assert "Version 1 has failed" in project.run("apply", "--version", "2", status=1)
    project.write("V000001__a.sql", STREAM.replace("STREAM s", "STREAM IF NOT EXISTS s"))
    project.run("apply", "--all")
    told = project.run("info")
    assert told.count("MIGRATED") == 2 and "Current migration version: 2" in told


def test_what_was_applied_may_not_change(project: Project) -> None:
    project.run("initialize-metadata")
    project.write("V000001__a.sql", STREAM)
    project.run("apply", "--all")
    project.write("V000001__a.sql", STREAM + "\n")
    assert "has changed since" in project.run("validate", status=1)
    project.write("V000002__b.sql", "CREATE TYPE later AS INT;")
    assert "has changed since" in project.run("apply", "--all", status=1)
    (project.folder / files.FOLDER / "V000001__a.sql").unlink()
    assert "its file is gone" in project.run("validate", status=1)


def test_variables_and_settings_are_those_of_one_file(project: Project) -> None:
    project.run("initialize-metadata")
    project.write("V000001__a.sql", "DEFINE place = 'one';" + STREAM.replace("'s'", "'${place}'"))
    project.write("V000002__b.sql", STREAM.replace("STREAM s", "STREAM b").replace("'s'", "'${x}'"))
    project.write("V000003__c.sql", "CREATE STREAM c (k INT) WITH (KAFKA_TOPIC='${place}');")
    project.run("apply", "--until", "2", "--define", "x=two")
    with project.database() as db:
        assert {"one", "two"} <= {
            name for row in db.execute("SHOW TOPICS;") for name in map(str, row)
        }
    project.run("apply", "--all", status=1)


def test_one_that_was_broken_off_is_not_repeated_blindly(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.run("initialize-metadata")
    project.write("V000001__a.sql", STREAM)
    record = metadata.Metadata.record

    def killed(self: metadata.Metadata, database: millstream.Database, event: object) -> None:
        record(self, database, event)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(metadata.Metadata, "record", killed)
    with pytest.raises(KeyboardInterrupt):
        project.run("apply", "--all")
    monkeypatch.undo()
    assert "RUNNING" in project.run("info")
    assert "broken off" in project.run("apply", "--all", status=1)


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("V1__short.sql", "", "no name of a migration"),
        ("V000000__zero.sql", "", "begin with 1"),
        ("V000001__again.sql", "", "same version"),
        ("V000002__select.sql", "SELECT * FROM s;", "SELECT changes nothing"),
        ("V000002__show.sql", "/* a */ show streams;", "SHOW changes nothing"),
        ("V000002__script.sql", "RUN SCRIPT 'x.sql';", "RUN changes nothing"),
        ("V000002__wrong.sql", "CREATE NOTHING;", "NOTHING"),
    ],
)
def test_files_that_are_no_migrations(project: Project, name: str, text: str, why: str) -> None:
    project.run("initialize-metadata")
    project.write("V000001__a.sql", STREAM)
    project.write(name, text)
    assert why in project.run("apply", "--all", status=1)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("create", "///"), "cannot be a part"),
        (("create", "x" * 300), "cannot be a part"),
        (("create", "x", "-v", "0"), "1 to 999999"),
        (("create", "x", "-v", "1000000"), "1 to 999999"),
        (("create", "x", "-v", "1"), "version 1 already"),
        (("apply", "-v", "7"), "no migration with version 7"),
        (("apply", "-u", "7"), "no migration with version 7"),
    ],
)
def test_what_is_refused(project: Project, words: tuple[str, ...], why: str) -> None:
    project.run("initialize-metadata")
    project.write("V000001__a.sql", STREAM)
    assert why in project.run(*words, status=1)


def test_projects_that_are_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["migrations", "-c", str(tmp_path / "x"), "info"]) == 1
    assert "new-project" in capsys.readouterr().err
    (tmp_path / "x").write_text("ksql.other=1\n")
    assert main(["migrations", "-c", str(tmp_path / "x"), "info"]) == 1
    assert "no ksql.server.url" in capsys.readouterr().err
    (tmp_path / "x").write_text("ksql.server.url=a.db\nbearer.auth.client.id=1\n")
    assert main(["migrations", "-c", str(tmp_path / "x"), "info"]) == 1
    assert "bearer.auth.client.id is no setting" in capsys.readouterr().err
    (tmp_path / "x").write_text("ksql.server.url\n")
    assert main(["migrations", "-c", str(tmp_path / "x"), "info"]) == 1
    assert "name=value" in capsys.readouterr().err
    assert main(["migrations", "new-project", str(tmp_path / "p"), "a.db"]) == 0
    assert main(["migrations", "new-project", str(tmp_path / "p"), "b.db"]) == 1
    assert "already" in capsys.readouterr().err
    assert "a.db" in (tmp_path / "p" / files.PROPERTIES).read_text()


def test_headers_are_sent_with_each_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[str | None] = []

    class Asked(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append(self.headers.get("x-tenant"))
            self.send_response(503)
            self.end_headers()

        def do_GET(self) -> None:
            self.do_POST()

        def log_message(self, format: str, *args: object) -> None:
            """Nothing is printed."""

    server = HTTPServer(("127.0.0.1", 0), Asked)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        folder, headers = tmp_path / "project", tmp_path / "headers"
        url = f"http://127.0.0.1:{server.server_port}"
        assert main(["migrations", "new-project", str(folder), url]) == 0
        headers.write_text("# of the gateway\nX-Tenant = shop one \nX-Other: 1\n")
        config = str(folder / files.PROPERTIES)
        given = ["migrations", "-c", config, "apply", "--all", "--headers", str(headers)]
        assert main(given) == 1
        headers.write_text("secret without a name\n")
        assert main(given) == 1
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    told = capsys.readouterr().err
    assert seen and set(seen) == {"shop one"}
    assert "line 1 is no header" in told
    assert "secret" not in told


def test_headers_are_for_servers(project: Project, tmp_path: Path) -> None:
    headers = tmp_path / "headers"
    headers.write_text("a=b\n")
    project.run("initialize-metadata")
    status = 1 if project.url.endswith(".db") else 0
    told = project.run("apply", "--all", "--headers", str(headers), status=status)
    assert ("for a server" in told) == (status == 1)

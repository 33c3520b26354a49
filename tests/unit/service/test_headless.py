"""A database whose queries come from a file: what the file may hold, and starting it again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import millstream
from millstream import ConflictError, Database, History, MillstreamError, Rows
from millstream_cli.main import main

VISITS = (
    "SET 'auto.offset.reset' = 'earliest';\n"
    "CREATE STREAM IF NOT EXISTS visits (page STRING KEY, ms INT) "
    "WITH (KAFKA_TOPIC='visits', PARTITIONS=1, VALUE_FORMAT='JSON');\n"
    "CREATE TABLE views AS SELECT page, COUNT(*) AS n FROM visits GROUP BY page;\n"
)
TOTALS = "CREATE TABLE totals AS SELECT page, SUM(ms) AS ms FROM visits GROUP BY page;\n"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "app.sql"
    path.write_text(VISITS, encoding="utf-8")
    return path


def started(script: Path) -> Database:
    return millstream.connect(str(script.with_suffix(".db")), queries_file=str(script))


def rows(db: Database, sql: str) -> list[tuple[Any, ...]]:
    db.wait()
    result = db.execute(sql)
    assert isinstance(result, Rows | History)
    return sorted(result)


def test_a_second_start_goes_on_and_takes_what_was_added(script: Path) -> None:
    with started(script) as db:
        db.execute("INSERT INTO visits VALUES ('home', 3);")
        assert rows(db, "SELECT * FROM views;") == [("home", 1)]
        first = rows(db, "SHOW QUERIES;")
    script.write_text(VISITS + TOTALS, encoding="utf-8")
    with started(script) as db:
        db.execute("INSERT INTO visits VALUES ('home', 4);")
        assert rows(db, "SELECT * FROM views;") == [("home", 2)]
        assert rows(db, "SELECT * FROM totals;") == [("home", 7)]
        assert first[0] in rows(db, "SHOW QUERIES;")


def test_only_the_file_changes_the_catalog(script: Path) -> None:
    with started(script) as db, pytest.raises(MillstreamError, match="come from"):
        db.execute("DROP TABLE views;")


def test_a_file_that_was_changed_is_refused(script: Path) -> None:
    started(script).close()
    script.write_text(VISITS.replace("COUNT(*)", "COUNT(ms)"), encoding="utf-8")
    with pytest.raises(ConflictError, match="does not go on"):
        started(script)
    script.write_text(VISITS.split("CREATE TABLE")[0], encoding="utf-8")
    with pytest.raises(ConflictError, match="does not go on"):
        started(script)
    script.write_text(VISITS, encoding="utf-8")
    started(script).close()


@pytest.mark.parametrize(
    "statement",
    ["SELECT * FROM views EMIT CHANGES;", "DROP TABLE views;", "DEFINE a = 'b';", "SHOW TABLES;"],
)
def test_other_statements_are_refused_before_any_runs(script: Path, statement: str) -> None:
    script.write_text(VISITS + statement, encoding="utf-8")
    with pytest.raises(MillstreamError, match="cannot hold this statement"):
        started(script)
    script.write_text("", encoding="utf-8")
    with started(script) as db:
        assert db.engine.catalog.sources == {}


def test_the_command_takes_the_file(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--queries-file", str(script), "--output", "json", "-e", "SHOW TABLES"]
    assert main(arguments) == 0
    assert "VIEWS" in capsys.readouterr().out
    assert main(["--queries-file", str(script.parent / "none.sql"), "-e", "SHOW TABLES"]) == 1

"""`millstream pipeline run`: its output and exit codes."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import millstream
from millstream_cli.main import main

ORDERS = (
    "CREATE STREAM orders (customer STRING KEY, amount DOUBLE)"
    " WITH (KAFKA_TOPIC='orders', PARTITIONS=2, VALUE_FORMAT='JSON');\n"
)
COUNTS = "CREATE TABLE counts AS SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer;\n"


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """The command over a database with three orders that are not counted yet."""
    path, script = tmp_path / "shop.db", tmp_path / "pipeline.sql"
    with millstream.connect(str(path)) as db:
        db.execute(ORDERS + "INSERT INTO orders VALUES ('ann', 1);" * 3)
    script.write_text(f"SET 'auto.offset.reset' = 'earliest';\n{ORDERS}{COUNTS}")
    return ["pipeline", "run", str(script), "--database", str(path), "--master", "none"]


def test_once(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--once"]) == 0
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("epoch 1: CTAS_COUNTS_1 read 3 records, wrote 3 (")
    assert said[1].startswith("epoch 1: 1 queries in ")
    assert len(said) == 2
    assert main([*words, "--once"]) == 0
    assert capsys.readouterr().err == ""
    with millstream.connect(words[4]) as db:
        db.wait()
        assert list(db.execute("SELECT * FROM counts;")) == [("ann", 3)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_between_epochs(words: list[str], number: signal.Signals) -> None:
    command = [sys.executable, "-m", "millstream_cli.main", *words, "--epoch", "1h"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert any("1 queries in" in line for line in iter(process.stderr.readline, ""))
    process.send_signal(number)
    assert process.stderr.read() == "The pipeline ends when this epoch is done.\n"
    assert process.wait() == 0


def test_a_statement_that_fails(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    Path(words[2]).write_text(f"{ORDERS}CREATE STREAM o AS\n  SELCT * FROM orders;\n")
    assert main([*words, "--once"]) == 1
    said = capsys.readouterr().err.splitlines()
    assert said[said.index("  ^^^^^") - 1] == "  SELCT * FROM orders;"


def test_a_query_that_fails(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    stops = "SET 'ksql.fail.on.deserialization.error' = 'true';\n"
    script = Path(words[2])
    script.write_text(script.read_text() + stops + COUNTS.replace("counts", "strict"))
    with millstream.connect(words[4]) as db:
        db.execute(
            "CREATE STREAM raw (v STRING) WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='KAFKA');"
            "INSERT INTO raw VALUES ('no JSON');"
        )
    assert main([*words, "--once"]) == 1
    said = capsys.readouterr().err
    assert "Query CTAS_STRICT_3 has failed." in said
    assert "CTAS_COUNTS_2 read 4 records, wrote 3, 1 could not be used" in said


def test_what_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    script = words[2]
    assert main(["pipeline", "run", script, "--kafka", "localhost:1", "--service-id", "a.b"]) == 1
    assert "'a.b' cannot be a service id" in capsys.readouterr().err
    for wrong in (["--epoch", "soon"], ["--epoch", "1s", "--once"], ["--kafka", "localhost:1"]):
        with pytest.raises(SystemExit) as ended:
            main([*words, *wrong])
        assert ended.value.code == 2

"""`millstream backup`, `restore`, `check`, `export` and `import`, as they are typed."""

from __future__ import annotations

from pathlib import Path

import pytest

import millstream
from millstream_cli.main import main


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a database of two records, in which commands run."""
    with millstream.connect(tmp_path / "shop.db") as db:
        db.execute(
            "CREATE STREAM s (k STRING KEY, v INT)"
            " WITH (KAFKA_TOPIC='s', PARTITIONS=1, FORMAT='JSON');"
            "INSERT INTO s VALUES ('a', 1); INSERT INTO s VALUES ('b', 2);"
        )
    monkeypatch.chdir(tmp_path)
    return tmp_path


Captured = pytest.CaptureFixture[str]


def run(captured: Captured, line: str, code: int = 0) -> str:
    """The output of a command, which ends with this code."""
    assert main(line.split()) == code
    found = captured.readouterr()
    return found.out + found.err


def test_a_backup_and_back(shop: Path, capsys: Captured) -> None:
    assert "3 segments, 3 of them new" in run(capsys, "backup shop.db b")
    assert "0 of them new" in run(capsys, "backup shop.db b --keep 1")
    assert run(capsys, "check b") == "3 records of 3 topics: all is well.\n"
    assert "r.db: 3 topics as of 2" in run(capsys, "restore b r.db")
    assert run(capsys, "check r.db") == "3 records of 3 topics: all is well.\n"
    with millstream.connect(shop / "r.db") as db:
        assert sorted(db.execute("SELECT k, v FROM s;")) == [("a", 1), ("b", 2)]
    assert "is there already" in run(capsys, "restore b r.db", 1)
    assert "are later than that" in run(capsys, "restore b x.db --at 2001-01-01T00:00:00", 1)
    assert "There is no file 'nothing.db'" in run(capsys, "backup nothing.db b", 1)
    assert not (shop / "nothing.db").exists()


def test_what_is_damaged_is_told(shop: Path, capsys: Captured) -> None:
    run(capsys, "backup shop.db b")
    for name in ("shop.db.state", next((shop / "b" / "segments").rglob("*-2.parquet"))):
        file = shop / name
        content = bytearray(file.read_bytes())
        for at in range(len(content) // 3, len(content), 997):
            content[at] ^= 1
        file.write_bytes(content)
    shown = run(capsys, "check b", 1)
    assert "parquet' of the backup is damaged: it has" in shown
    assert "Restore an earlier one" in shown
    assert "the state is damaged; --repair has it rebuilt" in run(capsys, "check shop.db", 1)
    assert "put aside" in run(capsys, "check shop.db --repair")
    assert "all is well" in run(capsys, "check shop.db")
    (shop / "text.db").write_text("hello")
    assert "cannot be read as a log" in run(capsys, "check text.db", 1)


def test_topics_go_out_and_in(shop: Path, capsys: Captured) -> None:
    assert run(capsys, "export shop.db s s.parquet") == "2 records written to s.parquet\n"
    assert "is there already" in run(capsys, "export shop.db s s.parquet", 1)
    assert "There is no topic 'S'" in run(capsys, "export shop.db S t.parquet", 1)
    shown = run(capsys, "import new.db copied s.parquet --partitions 2")
    assert shown == "2 records appended to topic copied\n"
    assert "is no Parquet file" in run(capsys, "import new.db copied shop.db", 1)
    with millstream.connect(shop / "new.db") as db:
        topic = db.engine.log.topic("copied")
        assert topic is not None and topic.partitions == 2


@pytest.mark.parametrize(
    "line", ["backup shop.db", "restore b", "check", "export shop.db s", "backup a b --keep x",
             "restore b r.db --at noon"]
)  # fmt: skip
def test_what_is_typed_wrong(shop: Path, line: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(line.split())
    assert ended.value.code == 2

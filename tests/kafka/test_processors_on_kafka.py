"""A processor on Kafka: its rows over restarts, with local state and without, are those of a
file."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import millstream
from millstream import Database
from tests.unit.service.test_processors import SILENT, STREAM, Silence, insert, rows

READINGS = [("abcdef"[n * n % 6], n * 7 % 40 + n) for n in range(45)]
EARLIEST = {"auto.offset.reset": "earliest", "processing.guarantee": "exactly_once_v2"}


def opened(path: Path, name: str, servers: str | None) -> Database:
    functions = [millstream.processor(Silence)]
    if servers is None:
        return millstream.connect(str(path), functions=functions, properties=EARLIEST)
    return millstream.connect(
        str(path), kafka=servers, service_id=name, functions=functions, properties=EARLIEST
    )


def run(folder: Path, name: str, servers: str | None) -> list[tuple[Any, ...]]:
    """The rows after several openings, some of them without the state of the one before."""
    folder.mkdir()
    sink = f"STREAM silent WITH (kafka_topic='{name}-silent')"
    sql = STREAM.replace("'readings'", f"'{name}'") + SILENT.replace("STREAM silent", sink)
    for turn, part in enumerate((READINGS[:15], READINGS[15:30], READINGS[30:])):
        path = folder / "state.db"
        if servers is not None and turn == 1:
            path = folder / "new.db"
        with opened(path, name, servers) as db:
            if turn == 0:
                db.execute(sql)
            insert(db, part)
            db.wait()
            found = rows(db, "SELECT * FROM silent;")
    return found


def test_the_rows_are_those_of_a_file(servers: str, kind: str, tmp_path: Path) -> None:
    name = f"processors{uuid.uuid4().hex[:8]}"
    expected = run(tmp_path / "file", name, None)
    assert run(tmp_path / "kafka", name, servers) == expected
    assert len(expected) > 5

"""A processor on Kafka: its rows over restarts, with local state and without, are those of a
file."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest

import millstream
from millstream import Database, Processor, ProcessorContext, Record
from millstream.query.results import Done
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


class Sending(Processor):
    """Sends what it gets; fails for numbers that three divides."""

    output = "k STRING KEY, n INT"

    def init(self, context: ProcessorContext) -> None:
        self.context = context

    def process(self, record: Record) -> None:
        n = record.value["N"]
        topic = f"{record.topic}-sent"
        self.context.send(topic, record.key, f"n={n}", headers=[("of", record.key.encode())])
        self.context.forward(record.key, {"N": n})
        if n % 3 == 0:
            raise ValueError(f"no {n}")


def replay(db: millstream.Database, name: str, limit: str = "") -> int:
    """How many letters REPLAY has appended; they are processed when this returns."""
    done = db.execute(f"REPLAY '{name}' FROM '{name}-dead'{limit};")
    assert isinstance(done, Done)
    db.wait()
    return int(done.message.split()[1])


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_what_is_sent_and_what_is_skipped_is_on_the_broker(
    servers: str, kind: str, guarantee: str
) -> None:
    name = f"sending{uuid.uuid4().hex[:8]}"
    properties = {
        "auto.offset.reset": "earliest",
        "processing.guarantee": guarantee,
        "processing.exception.handler": "continue",
        "errors.dead.letter.queue.topic.name": f"{name}-dead",
    }
    with millstream.connect(
        kafka=servers,
        service_id=name,
        functions=[millstream.processor(Sending)],
        properties=properties,
    ) as db:
        db.execute(f"""
            CREATE STREAM numbers (k STRING KEY, n INT)
              WITH (kafka_topic='{name}', partitions=2, value_format='JSON');
            CREATE STREAM sent (k STRING KEY, v STRING, h BYTES HEADER('of'))
              WITH (kafka_topic='{name}-sent', partitions=3, value_format='KAFKA');
            CREATE STREAM made WITH (kafka_topic='{name}-made')
              AS SELECT * FROM PROCESS(numbers, 'Sending');
            CREATE STREAM dead (k STRING KEY, v STRING,
                why BYTES HEADER('__streams.errors.message'),
                place BYTES HEADER('__streams.errors.offset'))
              WITH (kafka_topic='{name}-dead', value_format='KAFKA');
        """)
        db.insert("numbers", [(f"k{n % 5}", n) for n in range(20)])
        db.wait()
        sent = sorted(rows(db, "SELECT k, v, h FROM sent;"))
        dead = sorted(rows(db, "SELECT v, why FROM dead;"))
        made = sorted(rows(db, "SELECT n FROM made;"))
        replayed = [replay(db, name), replay(db, name), replay(db, name, " LIMIT 3")]
        again = rows(db, "SELECT v FROM dead;")
    assert replayed == [7, 7, 3], "each letter once, and those that fail again the next time"
    assert len(again) == 7 + 7 + 7 + 3
    good = [n for n in range(20) if n % 3]
    assert made == [(n,) for n in good]
    assert sent == sorted((f"k{n % 5}", f"n={n}", f"k{n % 5}".encode()) for n in good)
    assert [value for value, _ in dead] == sorted(f'{{"N":{n}}}' for n in range(0, 20, 3))
    assert all(b"ValueError: no " in why for _, why in dead)

"""Runs the statements of a case in an engine over a log of its own, and reads the sinks."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from millstream.log.log import Appended
from millstream.model.batch import raw_batch
from millstream.model.settings import EngineSettings
from millstream.query.session import Session
from millstream.runtime.spec import QueryState
from millstream.scripts.text import parse_text
from millstream.service.engine import Engine
from millstream.service.execution import execute_statement, open_engine
from tests.differential.data import key_bytes, place, value_bytes
from tests.differential.describe import Case, Join
from tests.differential.statements import created, declared, properties

WRITER = "differential"


class BrokenError(Exception):
    """A query stopped."""


@dataclass(frozen=True, slots=True)
class Written:
    """A record of a sink."""

    key: bytes | None
    value: bytes | None
    time: int


def output(case: Case) -> list[list[Written]]:
    """The records of the last sink by partition, in order."""
    with ExitStack() as stack:
        path = ":memory:"
        if case.running.restarts:
            folder = Path(tempfile.mkdtemp(prefix="millstream-"))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            path = str(folder / "case.db")
        running = _Running(case, path)
        stack.callback(running.close)
        running.run()
        return list(_written(running.engine, case.statements[-1].sink.topic))


@contextmanager
def open_case(case: Case, *, at_once: bool = True) -> Iterator[Engine]:
    """An engine that has executed a whole case, without restarts, and if `at_once` in one run. Rows
    move between sub-topologies at once: under exactly-once, they would move with the commit, after
    the receiver has read its other inputs."""
    records = tuple(replace(record, chunk=0) if at_once else record for record in case.records)
    whole = replace(case.running, restarts=(), max_batch=200_000)
    plain = replace(case, running=whole, records=records)
    running = _Running(plain, ":memory:", {"processing.guarantee": "at_least_once"})
    try:
        running.run()
        yield running.engine
    finally:
        running.close()


class _Running:
    """An engine with the statements of a case, which may be closed and opened again."""

    def __init__(self, case: Case, path: str, own: Mapping[str, str] | None = None) -> None:
        """`own`: session properties over those of the case."""
        self.case, self.path, self.own = case, path, dict(own or {})
        self.engine = self._open()
        self.left = list(case.running.restarts)
        self.steps = 0
        self._define()

    def _open(self) -> Engine:
        settings = EngineSettings(
            threads=1,
            max_batch_records=self.case.running.max_batch,
            commit_interval_ms=self.case.running.commit_interval,
        )
        self.now = 0
        return open_engine(self.path, settings, lambda: self.now)

    def _define(self) -> None:
        texts: list[tuple[str, dict[str, str]]] = [
            (declared(source), {}) for source in self.case.sources
        ]
        for statement in self.case.statements:
            query = statement.query
            name = query.sides[0].source if isinstance(query, Join) else query.source
            text = created(statement, self.case.source(name))
            texts.append((text, properties(statement, self.case)))
        for text, set_ in texts:
            for piece in parse_text(text):
                execute_statement(self.engine, piece, Session(set_ | self.own))

    def run(self) -> None:
        """Append the records chunk by chunk, coming to rest after each."""
        chunks = sorted({record.chunk for record in self.case.records})
        for chunk in chunks:
            self._append(chunk)
            while self.left:
                if not self._interrupted():
                    break
            self.engine.drain()
            self._check()
        self.engine.drain()
        self._check()

    def _append(self, chunk: int) -> None:
        places: dict[tuple[str, int], list[tuple[bytes | None, bytes | None, int]]] = {}
        for number, record in enumerate(self.case.records):
            if record.chunk == chunk:
                source = self.case.sources[record.source]
                key = key_bytes(source, record.key)
                line = (key, value_bytes(source, record.value), record.time)
                places.setdefault(place(self.case, number), []).append(line)
        writer = self.engine.log.writer(WRITER)
        writer.append(
            [
                Appended(topic, partition, raw_batch(rows), len(rows), 100 * len(rows))
                for (topic, partition), rows in places.items()
            ]
        )

    def _interrupted(self) -> bool:
        """Step until the next restart is due; whether it came before everything was done."""
        count, way = self.left[0]
        while self.steps < count:
            self.steps += 1
            self.now += 1
            with self.engine.driver.lock:
                if not self.engine.runtime.step(self.now).progress:
                    return False
        self.left.pop(0)
        self.steps = 0
        self._end(way)
        self.engine = self._open()
        return True

    def _end(self, way: str) -> None:
        if way == "kill":
            self.engine.runtime.close(self.now, commit=False)
            self.engine.log.close()
            self.engine.closed = True
        else:
            self.engine.close()
        if way == "wipe":
            for file in Path(self.path).parent.glob("*.state*"):
                file.unlink()

    def _check(self) -> None:
        for status in self.engine.statuses():
            if status.state in (QueryState.ERROR, QueryState.FENCED):
                raise BrokenError(f"{status.query_id} {status.state.value}: {status.error}")

    def close(self) -> None:
        """Release everything."""
        self.engine.close()


def _written(engine: Engine, topic: str) -> Iterator[list[Written]]:
    described: Any = engine.log.topic(topic)
    for partition in range(described.partitions):
        found, position = [], 0
        while True:
            fetched = engine.log.read(topic, partition, position, 100_000)
            for row in fetched.batch.to_pylist():
                found.append(Written(row["key"], row["value"], row["timestamp"]))
            if fetched.end:
                break
            position = fetched.next_offset
        yield found

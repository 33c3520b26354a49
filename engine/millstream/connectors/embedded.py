"""Connectors that run in this process: those of a database in a file, which has no Kafka Connect
beside it. There is one class, which makes up records."""

from __future__ import annotations

import json
import logging
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

import pyarrow as pa

from millstream.connectors import wordings
from millstream.connectors.connector import Connector, ConnectorPlugin, ConnectorTask
from millstream.connectors.datagen import CLASSES, Datagen, is_datagen, normal, read_datagen
from millstream.connectors.presets import Row
from millstream.log.compacted import records_of
from millstream.log.log import Appended, Log, Topic
from millstream.model.batch import raw_batch
from millstream.model.errors import MillstreamError, StatementError, UnavailableError

_LOG = logging.getLogger("millstream")
_CONFIG, _MADE = "config", "made"
"""What a record of the topic is about: the settings of a connector, or how many rows it has
made."""
MOST_ROWS = 1000
"""In one transaction."""
_PAUSE_S, _SHORT_S = 0.1, 0.001
"""How long rows wait for each other, and connectors without an interval for everything else."""
_RETRY_S = 1.0
_BACKLOG_S = 1.0
"""What was not made in time, because the machine slept, is not made up for beyond this."""
_WORKER = "embedded"
_VERSION = "1"


class Output(Protocol):
    """Writes what connectors make."""

    def check(self, datagen: Datagen) -> None:
        """Raise MillstreamError if the topic cannot be written by connectors."""

    def prepare(self, datagen: Datagen) -> None:
        """Create what is missing of the topic and its schemas; raises MillstreamError."""

    def append(
        self, datagen: Datagen, rows: Sequence[Row], with_them: Sequence[Appended[pa.Table]]
    ) -> None:
        """Append rows and other records, all or none; raises MillstreamError."""


@dataclass(slots=True)
class _Running:
    """A connector. `made`: how many rows. `due`: when the next one is to be made (monotonic
    clock). `failed`: its task has ended for this reason; `waiting`: it is tried again."""

    datagen: Datagen
    config: Mapping[str, str]
    due: float
    made: int = 0
    failed: str = ""
    waiting: str = ""
    chance: Random = field(default_factory=Random)

    @property
    def complete(self) -> bool:
        return self.made == self.datagen.iterations

    def take_due(self, now: float) -> int:
        """How many rows are due now; `due` is then the time of the next one."""
        left = MOST_ROWS
        if self.datagen.iterations is not None:
            left = min(left, self.datagen.iterations - self.made)
        if not self.datagen.interval_ms:
            return left
        count, self.due = 0, max(self.due, now - _BACKLOG_S)
        while self.due <= now and count < left:
            self.due += self.chance.random() * self.datagen.interval_ms / 1000
            count += 1
        return count


class EmbeddedConnectors:
    """See `Connectors`. One thread runs all of them. Their settings, and how many rows each has
    made, are on a topic of the log; the latter in one transaction with the rows, so that none is
    missing or there twice after a crash."""

    def __init__(
        self,
        log: Log[pa.Table],
        topic: str,
        output: Output,
        clock: Callable[[], int],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`topic`: for their settings; it is created with the first connector. `clock`: the time of
        day in ms; `monotonic`: seconds."""
        self._log, self._topic, self._output = log, topic, output
        self._clock, self._monotonic = clock, monotonic
        self._running: dict[str, _Running] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._started = self._closed = False

    # ---- statements --------------------------------------------------------------------------

    def check(self, name: str, config: Mapping[str, str]) -> None:
        """See `Connectors`."""
        self._checked(name, normal(config))

    def _checked(self, name: str, config: Mapping[str, str]) -> Datagen:
        datagen = _datagen_of(name, config)
        self._output.check(datagen)
        return datagen

    def create(self, name: str, config: Mapping[str, str]) -> Connector | None:
        """See `Connectors`."""
        with self._changed:
            if name in self._running:
                return None
            config = normal(config)
            datagen = self._checked(name, config)
            self._output.prepare(datagen)
            if self._log.topic(self._topic) is None:
                self._log.create_topic(Topic(self._topic, 1, config={"cleanup.policy": "compact"}))
            made = _Running(datagen, config, self._monotonic())
            self._output.append(
                datagen, (), [self._record(_CONFIG, name, config), self._record(_MADE, name, 0)]
            )
            self._running[name] = made
            self._run_in_thread()
            return _described(name, made)

    def drop(self, name: str) -> bool:
        """See `Connectors`. It makes no row after this returns; its topic stays."""
        with self._changed:
            if name not in self._running:
                return False
            gone = [self._record(about, name, None) for about in (_CONFIG, _MADE)]
            self._output.append(self._running[name].datagen, (), gone)
            del self._running[name]
            return True

    def connectors(self) -> tuple[Connector, ...]:
        """See `Connectors`."""
        with self._changed:
            return tuple(_described(name, self._running[name]) for name in sorted(self._running))

    def connector(self, name: str) -> Connector | None:
        """See `Connectors`."""
        with self._changed:
            found = self._running.get(name)
            return None if found is None else _described(name, found)

    def plugins(self) -> tuple[ConnectorPlugin, ...]:
        """See `Connectors`."""
        return (ConnectorPlugin(CLASSES[0], "source", _VERSION),)

    # ---- the thread --------------------------------------------------------------------------

    def start(self) -> None:
        """See `Connectors`: those of the log go on where they have ended."""
        self.load()
        with self._changed:
            self._started = True
            self._run_in_thread()

    def load(self) -> None:
        """Read the connectors of the log."""
        with self._changed:
            self._running = self._stored()

    def close(self) -> None:
        """See `Connectors`."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def run_once(self) -> float:
        """Make the rows that are due now; returns in how many seconds the next ones are."""
        with self._changed:
            pauses = [self._advance(name, each) for name, each in self._running.items()]
            return min(pauses, default=math.inf)

    def _run_in_thread(self) -> None:
        if self._thread is None and self._started and self._running and not self._closed:
            self._thread = threading.Thread(target=self._run, name="connectors", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def _run(self) -> None:
        with self._changed:
            while not self._closed:
                pause = self.run_once()
                self._changed.wait(None if pause == math.inf else pause)

    def _advance(self, name: str, each: _Running) -> float:
        if each.failed or each.complete:
            return math.inf
        now = self._monotonic()
        try:
            self._make(name, each, each.take_due(now))
            each.waiting = ""
        except UnavailableError as error:
            # Such as a full disk. It goes on by itself.
            each.waiting = error.message
            return _RETRY_S
        except Exception as error:
            each.failed = error.message if isinstance(error, MillstreamError) else repr(error)
            _LOG.warning("connector %s has failed: %s", name, each.failed)
            return math.inf
        if not each.datagen.interval_ms:
            return _SHORT_S
        return max(each.due - now, _PAUSE_S)

    def _make(self, name: str, each: _Running, count: int) -> None:
        if count <= 0:
            return
        rows = each.datagen.rows(each.made, count, self._clock(), each.chance)
        made = self._record(_MADE, name, each.made + count)
        self._output.append(each.datagen, rows, [made])
        each.made += count

    # ---- what is stored ----------------------------------------------------------------------

    def _record(self, about: str, name: str, value: object) -> Appended[pa.Table]:
        """A record of the topic; a value of None deletes the one before it."""
        text = None if value is None else json.dumps(value).encode()
        batch = raw_batch([(json.dumps([about, name]).encode(), text, self._clock())])
        return Appended(self._topic, 0, batch, 1, batch.nbytes)

    def _stored(self) -> dict[str, _Running]:
        stored: dict[str, dict[str, object]] = {_CONFIG: {}, _MADE: {}}
        for key, value in records_of(self._log, self._topic):
            about, name = json.loads(key)
            stored[about][name] = None if value is None else json.loads(value)
        now, found = self._monotonic(), dict[str, _Running]()
        for name, config in stored[_CONFIG].items():
            if not isinstance(config, dict):
                continue
            made = stored[_MADE].get(name)
            try:
                datagen = _datagen_of(name, config)
            except StatementError as error:
                _LOG.warning("not started, as a later version has made it: %s", error)
                continue
            found[name] = _Running(datagen, config, now, made if isinstance(made, int) else 0)
        return found


def _datagen_of(name: str, config: Mapping[str, str]) -> Datagen:
    if is_datagen(config):
        return read_datagen(name, config)
    found = config.get("connector.class")
    raise wordings.CONNECTOR_INVALID(
        name=name,
        setting="connector.class",
        problem=f"cannot be '{found}'" if found else "is missing",
        hint=f"'{CLASSES[0]}' makes up records. {wordings.ELSEWHERE}",
    )


def _described(name: str, each: _Running) -> Connector:
    state, trace = "RUNNING", each.waiting
    if each.failed:
        state, trace = "FAILED", each.failed
    elif each.complete:
        state, trace = "STOPPED", f"All {each.made} records are made."
    return Connector(
        name=name,
        kind="source",
        class_name=each.config["connector.class"],
        state="RUNNING",
        worker=_WORKER,
        tasks=(ConnectorTask(0, state, _WORKER, trace),),
        topics=(each.datagen.topic,),
        config={**each.config, "name": name},
    )

"""Keeping up with the command topic: what other instances of the service have written is carried
out here too, and the queries that it changes are started, ended, paused or resumed.

Topics and positions belong to the service and are made and deleted by the instance that was given
the statement; here only what this process has is touched.
"""

from __future__ import annotations

import logging
import threading
from contextlib import suppress

from millstream.ddl.snapshot import CatalogSnapshot
from millstream.model.errors import CorruptionError, MillstreamError, UnavailableError
from millstream.service import orphans
from millstream.service.command_topic import quiesced, snapshots
from millstream.service.command_topic.commands import CommandTopicLease, LeaseLostError
from millstream.service.command_topic.entries import Entry, chained
from millstream.service.command_topic.replay_state import ReplayState
from millstream.service.command_topic.replaying import replay
from millstream.service.engine import Engine
from millstream.service.reconcile import reconcile
from millstream.service.statements import teardown

PAUSE_SECONDS = 0.2
UNSAVED_AT_CLOSE = 10
TURNS_MAX = 5


def resume(engine: Engine) -> None:
    """Bring the catalog of a new engine to what the command topic says, starting no query."""
    if not _from_snapshot(engine):
        engine.definitions, engine.ledger = engine.definitions.cleared(), ReplayState()
    catch_up(engine, live=False)
    engine.ledger.replayed = len(engine.ledger.done) + len(engine.ledger.unapplied)


def _from_snapshot(engine: Engine) -> bool:
    snapshot = snapshots.newest(engine)
    if snapshot is None:
        return False
    for command in snapshot.commands:
        replay(engine, command)
    ledger = engine.ledger
    ledger.position, ledger.previous, ledger.unsaved = snapshot.position, snapshot.previous, 0
    return not ledger.unapplied and snapshots.digest_of(engine) == snapshot.digest


def catch_up(engine: Engine, *, live: bool = True) -> bool:
    """Carry out what is new on the command topic; `live`: the queries of the catalog are running.
    Whether there was anything.

    To be called under the driver's lock. UnavailableError when the log does not answer.
    """
    ledger = engine.ledger
    before = ledger.position
    if ledger.broken is not None:
        return False
    try:
        for entry in engine.commands.since(ledger.position):
            _check_chain(engine, entry)
            _take(engine, entry, live=live)
            ledger.position = entry.offset + 1
    except CorruptionError as error:
        if not live and error.code == "E-CMD-VERSION":
            raise
        _break(engine, error)
    return ledger.position != before


def _check_chain(engine: Engine, entry: Entry) -> None:
    expected = engine.ledger.previous
    if entry.value == engine.ledger.own or entry.previous in (None, expected):
        return
    raise CorruptionError(
        f"The command topic '{engine.settings.command_topic}' is not what was written: at"
        f" #{entry.offset} expected {expected or 'the first command'} got {entry.previous}",
        code="E-CMDLOG-DIVERGED",
    )


def _break(engine: Engine, error: CorruptionError) -> None:
    """Queries go on; who would change them is told."""
    engine.ledger.broken = UnavailableError(
        error.message,
        hint="Streams, tables and queries cannot be changed until the topic is restored and the"
        " instance started again; the queries of this instance go on.",
        code=error.code if error.code.startswith("E-CMD") else "E-CMDLOG-DIVERGED",
    )
    logging.getLogger("millstream").error(str(engine.ledger.broken))


def _take(engine: Engine, entry: Entry, *, live: bool) -> None:
    ledger = engine.ledger
    if entry.turn:
        ledger.turn = entry.turn, entry.offset
        release(engine, live=live)
        if entry.hold is not None:
            quiesced.stand_still(engine, entry.hold, live=live)
        return
    if entry.value == ledger.own:
        ledger.own = b""
        ledger.standing = None
        return
    assert entry.command is not None
    before = engine.definitions
    replay(engine, entry.command)
    ledger.previous = chained(entry.value)
    if engine.shared and not live:
        _drop_namesakes(engine, before)
    release(engine, live=live)


def _drop_namesakes(engine: Engine, before: CatalogSnapshot) -> None:
    """A user may have given the id of an ended query to a new one while this process was away:
    what it has of the earlier one must not pass for the other's."""
    for query_id in before.catalog.queries.keys() - engine.catalog.queries.keys():
        if teardown.generated_number(query_id) is None:
            engine.store.drop_query(query_id)


def release(engine: Engine, *, live: bool = True) -> None:
    """No query has to stand still any more. What runs is made to match the catalog."""
    stood, engine.ledger.standing = engine.ledger.standing, None
    if live:
        if stood is not None and stood.hold.query_id in engine.queries:
            engine.queries[stood.hold.query_id].stopped = True
        reconcile(engine)


def follow(engine: Engine) -> None:
    """Carry out what others have written since the last time, and delete what ended queries left
    behind. UnavailableError when the log does not answer."""
    ledger, gate = engine.ledger, engine.restoring and engine.restoring.catch_up_gate
    poll = gate.begin_poll() if gate else 0
    if ledger.broken is None and _news(engine):
        with engine.driver.lock:
            catch_up(engine)
        engine.driver.wake()
    if gate and gate.end_poll(poll):
        engine.driver.wake()
    if quiesced.overdue(engine):
        _take_turn(engine)
    if engine.ended_queries or any(query.retry for query in tuple(engine.queries.values())):
        with engine.driver.lock:
            orphans.erase_ended(engine)
            reconcile(engine, retry=True)


def _take_turn(engine: Engine) -> None:
    """By which nothing is changed but that nobody else has one."""
    with engine.driver.lock, suppress(LeaseLostError):
        if quiesced.overdue(engine):
            with engine.commands.turn(engine.clock()):
                catch_up(engine)


def _news(engine: Engine) -> bool:
    """Whether to look under the lock, which must not be held while nothing happens."""
    try:
        return next(engine.commands.since(engine.ledger.position), None) is not None
    except CorruptionError:
        return True


def clean(engine: Engine) -> None:
    """Let go what statements left half done that were killed; to be called when the topic was
    read and no query runs yet.

    Others may be carrying out a statement just now, and make topics before it is written. So this
    is done in a turn: whatever has a smaller number than the turn's and is not in the catalog when
    everything before the turn was read, will never be in it.
    """
    orphans.finish_last(engine)
    if not engine.shared:
        if engine.ledger.sound:
            orphans.sweep(engine)
        return
    for _ in range(TURNS_MAX):
        with suppress(LeaseLostError), engine.commands.turn(engine.clock()) as turn:
            catch_up(engine, live=False)
            token, number = engine.ledger.turn
            if engine.ledger.sound and token == turn.token:
                orphans.sweep(engine, below=number)
            return


def save_if_due(engine: Engine, turn: CommandTopicLease, due: int) -> None:
    """Write a snapshot in a turn, when `due` commands or more are in none. A failure of it is no
    failure of what it comes after."""
    if engine.ledger.sound and engine.ledger.unsaved >= due:
        try:
            snapshots.save(engine, turn)
        except MillstreamError as error:
            logging.getLogger("millstream").warning("no snapshot was written: %s", error)


class TopicFollower:
    """The thread that keeps an engine up with its service; on a log of one process, only what is
    left to do at the end."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin; nothing to follow on a log of one process."""
        if self._engine.restoring is not None:
            self._engine.restoring.catch_up_gate.follow()
        if self._engine.shared and self._thread is None:
            self._thread = threading.Thread(target=self._run, name="millstream-follow", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the thread, delete what is still to be deleted, and write a last snapshot where
        that spares the next start much."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        engine = self._engine
        with suppress(MillstreamError), engine.driver.lock:
            orphans.erase_ended(engine)
            if engine.ledger.unsaved >= UNSAVED_AT_CLOSE:
                with engine.commands.turn(engine.clock()) as turn:
                    catch_up(engine, live=False)
                    save_if_due(engine, turn, UNSAVED_AT_CLOSE)

    def _run(self) -> None:
        gate = self._engine.restoring and self._engine.restoring.catch_up_gate
        wanted = gate.poll_requested if gate else self._stopping
        while not self._stopping.is_set():
            wanted.wait(PAUSE_SECONDS)
            try:
                follow(self._engine)
            except MillstreamError as error:
                logging.getLogger("millstream").warning("commands cannot be followed: %s", error)

"""Follows the command topic: applies the commands of other instances of the service, and starts,
ends, pauses or resumes the queries that they change.

The instance that receives a statement creates and deletes the topics and positions of the service.
Following changes only the state of this process.
"""

from __future__ import annotations

import logging
import threading
from contextlib import suppress

from millstream.ddl.snapshot import CatalogSnapshot
from millstream.model.errors import CorruptionError, MillstreamError, UnavailableError
from millstream.queries import orphans, teardown
from millstream.queries.reconcile import reconcile
from millstream.service.command_topic import quiesced, snapshots
from millstream.service.command_topic.commands import CommandTopicLease, LeaseLostError
from millstream.service.command_topic.entries import Entry, command_hash
from millstream.service.command_topic.replay_state import ReplayState
from millstream.service.command_topic.replaying import finish_last, replay
from millstream.service.engine import Engine

PAUSE_SECONDS = 0.2
"""The time between two polls of the command topic."""
UNSAVED_AT_CLOSE = 10
"""`stop` writes a snapshot if at least this many commands are in none."""
LEASE_ATTEMPTS = 5


def restore_catalog(engine: Engine) -> None:
    """Restore the catalog of a new engine from the command topic. Starts no query."""
    if not _from_snapshot(engine):
        engine.registry.clear()
        engine.replay_state = ReplayState()
    catch_up(engine, live=False)
    replay_state = engine.replay_state
    replay_state.replayed = len(replay_state.applied) + len(replay_state.unapplied)


def _from_snapshot(engine: Engine) -> bool:
    snapshot = snapshots.newest(engine)
    if snapshot is None:
        return False
    for command in snapshot.commands:
        replay(engine, command)
    replay_state = engine.replay_state
    replay_state.position, replay_state.previous = snapshot.position, snapshot.previous
    replay_state.unsaved = 0
    return not replay_state.unapplied and snapshots.digest_of(engine) == snapshot.digest


def catch_up(engine: Engine, *, live: bool = True) -> bool:
    """Apply the new entries of the command topic; returns whether there were any. `live`: whether
    the queries of the catalog are running.

    The caller holds the driver's lock. Raises UnavailableError when the log does not respond.
    """
    replay_state = engine.replay_state
    before = replay_state.position
    if replay_state.broken is not None:
        return False
    try:
        for entry in engine.commands.since(replay_state.position):
            _check_chain(engine, entry)
            _apply(engine, entry, live=live)
            replay_state.position = entry.offset + 1
    except CorruptionError as error:
        if not live and error.code == "E-CMD-VERSION":
            raise
        _mark_broken(engine, error)
    return replay_state.position != before


def _check_chain(engine: Engine, entry: Entry) -> None:
    expected = engine.replay_state.previous
    if entry.value == engine.replay_state.unread_append or entry.previous in (None, expected):
        return
    raise CorruptionError(
        f"The command topic '{engine.settings.command_topic}' is not what was written: at"
        f" #{entry.offset} expected {expected or 'the first command'} got {entry.previous}",
        code="E-CMDLOG-DIVERGED",
    )


def _mark_broken(engine: Engine, error: CorruptionError) -> None:
    """Stop following: queries continue, but statements that change the catalog fail."""
    engine.replay_state.broken = UnavailableError(
        error.message,
        hint="Streams, tables and queries cannot be changed until the topic is restored and the"
        " instance started again; the queries of this instance continue.",
        code=error.code if error.code.startswith("E-CMD") else "E-CMDLOG-DIVERGED",
    )
    logging.getLogger("millstream").error(str(engine.replay_state.broken))


def _apply(engine: Engine, entry: Entry, *, live: bool) -> None:
    replay_state = engine.replay_state
    if entry.lease:
        replay_state.lease = entry.lease, entry.offset
        end_quiescence(engine, live=live)
        if entry.quiesce is not None:
            quiesced.quiesce(engine, entry.quiesce, live=live)
        return
    if entry.value == replay_state.unread_append:
        replay_state.unread_append = b""
        replay_state.quiesced = None
        return
    assert entry.command is not None
    before = engine.registry.definitions
    replay(engine, entry.command)
    replay_state.previous = command_hash(entry.value)
    if engine.shared and not live:
        _drop_state_of_ended(engine, before)
    end_quiescence(engine, live=live)


def _drop_state_of_ended(engine: Engine, before: CatalogSnapshot) -> None:
    """Drop the state of ended queries with ids of users. While this process was down, a user may
    have given such an id to a new query, which must not use the state of the earlier one."""
    for query_id in before.catalog.queries.keys() - engine.catalog.queries.keys():
        if teardown.generated_number(query_id) is None:
            engine.store.drop_query(query_id)


def end_quiescence(engine: Engine, *, live: bool = True) -> None:
    """End the quiescence of a query, if there is one. If `live`, match the running queries to the
    catalog."""
    quiesced_query, engine.replay_state.quiesced = engine.replay_state.quiesced, None
    if live:
        if (
            quiesced_query is not None
            and quiesced_query.request.query_id in engine.registry.queries
        ):
            engine.registry.queries[quiesced_query.request.query_id].stopped = True
        reconcile(engine.registry)


def follow(engine: Engine) -> None:
    """Apply the entries of other instances since the last call, and delete the topics of ended
    queries. Raises UnavailableError when the log does not respond."""
    replay_state, gate = engine.replay_state, engine.restoring and engine.restoring.catch_up_gate
    poll = gate.begin_poll() if gate else 0
    if replay_state.broken is None and _has_new_entries(engine):
        with engine.driver.lock:
            catch_up(engine)
        engine.driver.wake()
    if gate and gate.end_poll(poll):
        engine.driver.wake()
    if quiesced.is_overdue(engine):
        _end_overdue_quiescence(engine)
    if engine.registry.ended_queries or any(
        query.retry for query in tuple(engine.registry.queries.values())
    ):
        with engine.driver.lock:
            orphans.erase_ended(engine.registry)
            reconcile(engine.registry, retry=True, quiesced=replay_state.quiesced_id)


def _end_overdue_quiescence(engine: Engine) -> None:
    """Take a lease without a command: as the next entry, it ends an overdue quiescence."""
    with engine.driver.lock, suppress(LeaseLostError):
        if quiesced.is_overdue(engine):
            with engine.commands.lease(engine.clock()):
                catch_up(engine)


def _has_new_entries(engine: Engine) -> bool:
    """Whether to catch up under the lock. Polling does not take the lock, so that an idle topic
    blocks nothing."""
    try:
        return next(engine.commands.since(engine.replay_state.position), None) is not None
    except CorruptionError:
        return True


def delete_orphans(engine: Engine) -> None:
    """Delete the topics and state that interrupted statements left. The caller has read the topic,
    and no query runs yet.

    Another instance may be executing a statement, whose topics exist before its command. So on a
    shared log this runs under a lease: a query with a smaller number than the lease that is not in
    the catalog once everything before the lease is read, will never be in it.
    """
    finish_last(engine)
    if not engine.shared:
        if engine.replay_state.complete:
            orphans.sweep(engine.registry)
        return
    for _ in range(LEASE_ATTEMPTS):
        with suppress(LeaseLostError), engine.commands.lease(engine.clock()) as lease:
            catch_up(engine, live=False)
            token, number = engine.replay_state.lease
            if engine.replay_state.complete and token == lease.token:
                orphans.sweep(engine.registry, below=number)
            return


def save_if_due(engine: Engine, lease: CommandTopicLease, due: int) -> None:
    """Write a snapshot under a lease if at least `due` commands are in none. Logs a failure, which
    must not fail the statement before it."""
    if engine.replay_state.complete and engine.replay_state.unsaved >= due:
        try:
            snapshots.save(engine, lease)
        except MillstreamError as error:
            logging.getLogger("millstream").warning(
                "the snapshot of the command topic was not written: %s", error
            )


class TopicFollower:
    """The thread that follows the command topic. On a log of one process it never runs; only `stop`
    has an effect."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread if the log is shared."""
        if self._engine.restoring is not None:
            self._engine.restoring.catch_up_gate.follow()
        if self._engine.shared and self._thread is None:
            self._thread = threading.Thread(target=self._run, name="millstream-follow", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Stop the thread, delete the topics of ended queries, and write a snapshot if many
        commands are in none, so that the next start is fast. Idempotent."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        engine = self._engine
        with suppress(MillstreamError), engine.driver.lock:
            orphans.erase_ended(engine.registry)
            if engine.replay_state.unsaved >= UNSAVED_AT_CLOSE:
                with engine.commands.lease(engine.clock()) as lease:
                    catch_up(engine, live=False)
                    save_if_due(engine, lease, UNSAVED_AT_CLOSE)

    def _run(self) -> None:
        gate = self._engine.restoring and self._engine.restoring.catch_up_gate
        wake = gate.poll_requested if gate else self._stopping
        while not self._stopping.is_set():
            wake.wait(PAUSE_SECONDS)
            try:
                follow(self._engine)
            except MillstreamError as error:
                logging.getLogger("millstream").warning(
                    "the command topic cannot be followed: %s", error
                )

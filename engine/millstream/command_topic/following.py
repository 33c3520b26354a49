"""Follows the command topic: applies the commands of other instances of the service, and starts,
ends, pauses or resumes the queries that they change.

The instance that receives a statement creates and deletes the topics and positions of the service.
Following changes only the state of this process.
"""

from __future__ import annotations

import logging
import threading
from contextlib import suppress

from millstream.command_topic import quiesced, snapshots
from millstream.command_topic.command_topic import CommandTopic
from millstream.command_topic.commands import CommandTopicLease, LeaseLostError
from millstream.command_topic.entries import Entry, command_hash
from millstream.command_topic.replay_state import ReplayState
from millstream.command_topic.replaying import finish_last, replay
from millstream.ddl.snapshot import CatalogSnapshot
from millstream.model.errors import CorruptionError, MillstreamError, UnavailableError
from millstream.queries import orphans, teardown
from millstream.queries.reconcile import reconcile

PAUSE_SECONDS = 0.2
"""The time between two polls of the command topic."""
UNSAVED_AT_CLOSE = 10
"""`stop` writes a snapshot if at least this many commands are in none."""
LEASE_ATTEMPTS = 5


def restore_catalog(command_topic: CommandTopic) -> None:
    """Restore the catalog of a new engine from the command topic. Starts no query."""
    if not _from_snapshot(command_topic):
        command_topic.registry.clear()
        command_topic.state = ReplayState()
    catch_up(command_topic, live=False)
    replay_state = command_topic.state
    replay_state.replayed = len(replay_state.applied) + len(replay_state.unapplied)


def _from_snapshot(command_topic: CommandTopic) -> bool:
    snapshot = snapshots.newest(command_topic)
    if snapshot is None:
        return False
    for command in snapshot.commands:
        replay(command_topic, command)
    registry, replay_state = command_topic.registry, command_topic.state
    registry.definitions = registry.definitions.with_terminated(snapshot.terminated)
    replay_state.position, replay_state.previous = snapshot.position, snapshot.previous
    replay_state.unsaved = 0
    return not replay_state.unapplied and snapshots.digest_of(command_topic) == snapshot.digest


def catch_up(
    command_topic: CommandTopic,
    *,
    live: bool = True,
    until: CommandTopicLease | None = None,
    end: int | None = None,
) -> bool:
    """Apply the new entries of the command topic; returns whether there were any. `live`: whether
    the queries of the catalog are running. `until`: a lease of this instance, behind which there is
    nothing to read; `end`: the offset to read up to.

    The caller holds the driver's lock. Raises UnavailableError when the log does not respond.
    """
    replay_state = command_topic.state
    before = replay_state.position
    if replay_state.broken is not None:
        return False
    try:
        token = "" if until is None else until.token
        for entry in command_topic.log.since(replay_state.position, until=token, end=end):
            _check_chain(command_topic, entry)
            _apply(command_topic, entry, live=live)
            replay_state.position = entry.offset + 1
    except CorruptionError as error:
        if not live and error.code == "E-CMD-VERSION":
            raise
        _mark_broken(command_topic, error)
    return replay_state.position != before


def _check_chain(command_topic: CommandTopic, entry: Entry) -> None:
    expected = command_topic.state.previous
    if entry.value in command_topic.state.unread_appends or entry.previous in (None, expected):
        return
    name = command_topic.registry.settings.command_topic
    raise CorruptionError(
        f"The command topic '{name}' is not what was written: at"
        f" #{entry.offset} expected {expected or 'the first command'} got {entry.previous}",
        code="E-CMDLOG-DIVERGED",
    )


def _mark_broken(command_topic: CommandTopic, error: CorruptionError) -> None:
    """Stop following: queries continue, but statements that change the catalog fail."""
    command_topic.state.broken = UnavailableError(
        error.message,
        hint="Streams, tables and queries cannot be changed until the topic is restored and the"
        " instance started again; the queries of this instance continue.",
        code=error.code if error.code.startswith("E-CMD") else "E-CMDLOG-DIVERGED",
    )
    logging.getLogger("millstream").error(str(command_topic.state.broken))


def _apply(command_topic: CommandTopic, entry: Entry, *, live: bool) -> None:
    replay_state = command_topic.state
    if entry.lease:
        replay_state.read_lease(entry.lease, entry.offset)
        end_quiescence(command_topic, live=live)
        if entry.quiesce is not None:
            quiesced.quiesce(command_topic, entry.quiesce, live=live)
        return
    if replay_state.read_back(entry.value):
        replay_state.quiesced = None
        return
    assert entry.command is not None
    before = command_topic.registry.definitions
    replay(command_topic, entry.command)
    replay_state.previous = command_hash(entry.value)
    if command_topic.registry.shared and not live:
        _drop_state_of_ended(command_topic, before)
    end_quiescence(command_topic, live=live)


def _drop_state_of_ended(command_topic: CommandTopic, before: CatalogSnapshot) -> None:
    """Drop the state of ended queries with ids of users. While this process was down, a user may
    have given such an id to a new query, which must not use the state of the earlier one."""
    for query_id in before.catalog.queries.keys() - command_topic.registry.catalog.queries.keys():
        if teardown.generated_number(query_id) is None:
            command_topic.registry.store.drop_query(query_id)


def end_quiescence(command_topic: CommandTopic, *, live: bool = True) -> None:
    """End the quiescence of a query, if there is one. If `live`, match the running queries to the
    catalog."""
    quiesced_query, command_topic.state.quiesced = command_topic.state.quiesced, None
    if live:
        if (
            quiesced_query is not None
            and quiesced_query.request.query_id in command_topic.registry.queries
        ):
            command_topic.registry.queries[quiesced_query.request.query_id].stopped = True
        reconcile(command_topic.registry)


def follow(command_topic: CommandTopic) -> None:
    """Apply the entries of other instances since the last call, and delete the topics of ended
    queries. Raises UnavailableError when the log does not respond."""
    replay_state, gate = (
        command_topic.state,
        command_topic.registry.restoring and command_topic.registry.restoring.catch_up_gate,
    )
    poll = gate.begin_poll() if gate else 0
    if replay_state.broken is None and _has_new_entries(command_topic):
        with command_topic.registry.driver.lock:
            catch_up(command_topic, end=command_topic.log.next_offset)
        command_topic.registry.driver.wake()
    if gate and gate.end_poll(poll):
        command_topic.registry.driver.wake_all()
    if quiesced.is_overdue(command_topic):
        _end_overdue_quiescence(command_topic)
    if command_topic.registry.ended_queries or any(
        query.retry for query in tuple(command_topic.registry.queries.values())
    ):
        with command_topic.registry.driver.lock:
            orphans.erase_ended(command_topic.registry)
            reconcile(command_topic.registry, retry=True, quiesced=replay_state.quiesced_id)


def _end_overdue_quiescence(command_topic: CommandTopic) -> None:
    """Take a lease without a command: as the next entry, it ends an overdue quiescence."""
    with command_topic.registry.driver.lock, suppress(LeaseLostError):
        if quiesced.is_overdue(command_topic):
            with command_topic.log.lease(command_topic.clock()) as lease:
                catch_up(command_topic, until=lease)


def _has_new_entries(command_topic: CommandTopic) -> bool:
    """Whether to catch up under the lock. Polling does not take the lock, so that an idle topic
    blocks nothing. It does not read either: that would make the statements of this instance, which
    read the topic at another position, wait for it."""
    end = command_topic.log.next_offset
    return command_topic.log.unread(command_topic.state.position, end)


def delete_orphans(command_topic: CommandTopic) -> None:
    """Delete the topics and state that interrupted statements left. The caller has read the topic,
    and no query runs yet.

    Another instance may be executing a statement, whose topics exist before its command. So on a
    shared log this runs under a lease: a query with a smaller number than the lease that is not in
    the catalog once everything before the lease is read, will never be in it.
    """
    finish_last(command_topic)
    if not command_topic.registry.shared:
        if command_topic.state.complete:
            orphans.sweep(command_topic.registry)
        return
    for _ in range(LEASE_ATTEMPTS):
        with suppress(LeaseLostError), command_topic.log.lease(command_topic.clock()) as lease:
            catch_up(command_topic, live=False, until=lease)
            token, numbers = command_topic.state.lease
            if command_topic.state.complete and token == lease.token:
                orphans.sweep(command_topic.registry, below=numbers[0])
            return


def save_if_due(command_topic: CommandTopic, lease: CommandTopicLease, due: int) -> None:
    """Write a snapshot under a lease if at least `due` commands are in none. Logs a failure, which
    must not fail the statement before it."""
    if command_topic.state.complete and command_topic.state.unsaved >= due:
        try:
            snapshots.save(command_topic, lease)
        except MillstreamError as error:
            logging.getLogger("millstream").warning(
                "the snapshot of the command topic was not written: %s", error
            )


class TopicFollower:
    """The thread that follows the command topic. On a log of one process it never runs; only `stop`
    has an effect."""

    def __init__(self, command_topic: CommandTopic) -> None:
        self._command_topic = command_topic
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread if the log is shared."""
        registry = self._command_topic.registry
        if registry.shared and self._thread is None:
            if registry.restoring is not None:
                registry.restoring.catch_up_gate.follow()
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
        command_topic = self._command_topic
        with suppress(MillstreamError), command_topic.registry.driver.lock:
            orphans.erase_ended(command_topic.registry)
            if command_topic.state.unsaved >= UNSAVED_AT_CLOSE:
                with command_topic.log.lease(command_topic.clock()) as lease:
                    catch_up(command_topic, live=False, until=lease)
                    save_if_due(command_topic, lease, UNSAVED_AT_CLOSE)

    def _run(self) -> None:
        gate = (
            self._command_topic.registry.restoring
            and self._command_topic.registry.restoring.catch_up_gate
        )
        wake = gate.poll_requested if gate else self._stopping
        while not self._stopping.is_set():
            wake.wait(PAUSE_SECONDS)
            try:
                follow(self._command_topic)
            except MillstreamError as error:
                logging.getLogger("millstream").warning(
                    "the command topic cannot be followed: %s", error
                )

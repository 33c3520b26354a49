"""Executes REPLAY: appends records that a query could not process to their topic once more.

An extension: Kafka Streams and ksqlDB write dead letters, and leave it to others to read them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from millstream.ddl.environment import Topics
from millstream.ddl.topics import refuse_internal, refuse_missing
from millstream.formats.partition import partition_of
from millstream.log.log import Appended, Log, Outcome, Topic, TopicPartition
from millstream.model.batch import RAW_SCHEMA
from millstream.model.errors import FencedError, UnavailableError
from millstream.model.settings import EngineSettings
from millstream.queries.dead_letters import Letter, letter_of
from millstream.queries.registry import QueryRegistry
from millstream.query.results import Done
from millstream.statements import wordings
from millstream_parser.statements import Replay

_PAGE = 10_000
"""The letters that are replayed in one transaction."""


def replay(statement: Replay, registry: QueryRegistry) -> Done:
    """Append the letters of a topic that came there since the last REPLAY, each once: what is
    appended and how far the letters have been read is committed together. Letters that come while
    this runs wait for the next one, so that a record that fails again does not go round in circles.

    Raises UnavailableError when another REPLAY takes over, or when the log cannot say whether it
    has committed; what was committed before stays.
    """
    check_replayable(statement, registry.log, registry.settings)
    group = f"replay.{statement.topic}.{statement.letters}"
    writer = registry.log.writer(group)
    done, gone = 0, 0
    try:
        # In this order: nobody else moves the positions once the writer is open.
        for page in _pages(registry.log, statement, group):
            if writer.transact(group, page.appended, page.positions) is not Outcome.COMMITTED:
                raise _interrupted(statement, done, "the transaction did not commit")
            done, gone = done + page.letters, gone + page.gone
    except FencedError as error:
        raise _interrupted(statement, done, "another REPLAY has taken over") from error
    finally:
        writer.close()
    left = f"; {gone} had been deleted before they were put aside" if gone else ""
    noun = "record" if done == 1 else "records"
    return Done(f"Replayed {done} {noun} of {statement.topic} from {statement.letters}{left}")


def check_replayable(statement: Replay, topics: Topics, settings: EngineSettings) -> None:
    """Refuse topics that do not exist, the engine's own, and a topic and itself."""
    refuse_internal(settings, statement.topic, "write to")
    for name in (statement.topic, statement.letters):
        refuse_missing(topics, name)
    if statement.topic == statement.letters:
        raise wordings.REPLAYED_FROM_ITSELF(
            topic=statement.topic,
            hint="Write REPLAY, the topic whose records were skipped, FROM, the dead letter topic.",
        )


def _interrupted(statement: Replay, done: int, why: str) -> UnavailableError:
    return UnavailableError(
        f"REPLAY {statement.topic} FROM {statement.letters} was interrupted: {why}",
        detail=f"{done} records were appended",
        hint="Repeat it: what was appended is not appended again.",
    )


@dataclass(frozen=True, slots=True)
class _Page:
    """What one transaction does."""

    appended: Sequence[Appended[pa.Table]]
    positions: dict[TopicPartition, int]
    letters: int
    gone: int


def _pages(log: Log[pa.Table], statement: Replay, group: str) -> Iterator[_Page]:
    letters, target = log.topic(statement.letters), log.topic(statement.topic)
    if letters is None or target is None:  # deleted since they were looked up
        return
    places = [(letters.name, partition) for partition in range(letters.partitions)]
    positions = log.positions(group, places)
    ends = {place: log.end_offset(*place) for place in places}
    left = statement.limit
    for place in places:
        first, end = log.start_offset(*place), ends[place]
        at = max(first, positions.get(place, 0))
        # Beyond the end, it is the position in a topic of that name that was deleted.
        at = at if at <= end else first
        while at < end and left != 0:
            page, at = _page(log, place, at, min(_PAGE, end - at, left or _PAGE), target)
            if page is None:
                break
            left = None if left is None else left - page.letters - page.gone
            yield page


def _page(
    log: Log[pa.Table], place: TopicPartition, at: int, size: int, target: Topic
) -> tuple[_Page | None, int]:
    """The next letters of a partition, and the offset behind them; None if nothing is readable."""
    fetched = log.read(*place, at, size)
    if fetched.next_offset <= at:
        return None, at
    found = [letter_of(row) for row in fetched.batch.to_pylist()]
    own = [letter for letter in found if letter is not None and letter.topic == target.name]
    wanted = [letter for letter in own if not letter.gone]
    page = _Page(
        _appended(wanted, target),
        {place: fetched.next_offset},
        len(wanted),
        len(own) - len(wanted),
    )
    return page, fetched.next_offset


def _appended(letters: Sequence[Letter], target: Topic) -> list[Appended[pa.Table]]:
    """The records for each partition of the topic, in the order of the letters."""
    rows: defaultdict[int, list[dict[str, object]]] = defaultdict(list)
    for letter in letters:
        rows[_partition(letter, target.partitions)].append(dict(letter.record))
    made = ((at, pa.Table.from_pylist(some, schema=RAW_SCHEMA)) for at, some in rows.items())
    return [Appended(target.name, at, table, table.num_rows, table.nbytes) for at, table in made]


def _partition(letter: Letter, partitions: int) -> int:
    """The partition where the record was; that of its key, if the topic has fewer by now."""
    if letter.partition < partitions:
        return letter.partition
    key = pa.array([letter.record["key"]], pa.binary())
    return int(np.maximum(partition_of(key, partitions)[0], 0))

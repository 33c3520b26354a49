"""Translates a range of a source's history into offsets and bounds of event time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from millstream.history.splits import Split, whole
from millstream.log.log import Log, Topic, TopicPartition
from millstream.model.errors import Span, StatementError
from millstream.plan.instants import epoch_millis
from millstream_parser.history import AsOf, Moment, OffsetRange, Range, TimeRange

GONE = "E-HISTORY-GONE"
"""The range begins before the first retained record."""
AHEAD = "E-HISTORY-AHEAD"
"""The range ends in the future."""

FirstTime = Callable[[Split], int | None]
"""The event time of the first usable record of a split; None where there is none."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Event times in [begin, end); None where there is no bound."""

    begin: int | None = None
    end: int | None = None

    @property
    def open(self) -> bool:
        """Whether every record is within the bounds."""
        return self.begin is None and self.end is None


@dataclass(frozen=True, slots=True)
class Extent:
    """The records of a topic that a query reads."""

    splits: Mapping[TopicPartition, Split]
    bounds: Bounds


@dataclass(frozen=True, slots=True)
class Ranged:
    """A source's topic and the range that a statement gives for it; `name` is the source's."""

    name: str
    topic: Topic
    range: Range | None


def extent(ranged: Ranged, log: Log[object], now: int, first_time: FirstTime) -> Extent:
    """Resolve a range at this moment. Raises StatementError where it begins before the first
    retained record (E-HISTORY-GONE) or ends after `now` (E-HISTORY-AHEAD): it never silently
    returns less."""
    topic = ranged.topic
    everything = whole(log, ((topic.name, number) for number in range(topic.partitions)))
    match ranged.range:
        case None:
            return Extent(everything, Bounds())
        case AsOf(time):
            moment = _moment(time, ranged)
            _refuse_ahead(moment, now, ranged)
            _refuse_gone(everything, ranged, first_time, None)
            return Extent(everything, Bounds(end=moment + 1))
        case TimeRange(begin, end):
            first, last = _moment(begin, ranged), _moment(end, ranged)
            if first >= last:
                raise _error("The range ends before it begins.", ranged)
            _refuse_ahead(last - 1, now, ranged)
            _refuse_gone(everything, ranged, first_time, first)
            return Extent(everything, Bounds(first, last))
        case OffsetRange(lowest, highest):
            return Extent(_between(lowest, highest, everything, ranged), Bounds())


def _moment(time: Moment, ranged: Ranged) -> int:
    if isinstance(time, int):
        return time
    try:
        return epoch_millis(time)
    except StatementError as error:
        raise _error(error.message, ranged, hint=error.hint) from None


def _refuse_ahead(moment: int, now: int, ranged: Ranged) -> None:
    if moment > now:
        raise _error(
            f"The range of {ranged.name} reaches beyond now: what will be there is not known yet.",
            ranged,
            hint="End it at a time that has passed.",
            code=AHEAD,
        )


def _refuse_gone(
    whole: Mapping[TopicPartition, Split], ranged: Ranged, first_time: FirstTime, begin: int | None
) -> None:
    """`begin`: the lower bound of event time; None: from the first record that was ever written."""
    for split in whole.values():
        if split.start == 0:
            continue
        first = first_time(split)
        if begin is not None and first is not None and first <= begin:
            continue
        since = "none is left" if first is None else f"the first one left is of {first}"
        raise _gone(ranged, split, f"{since} (ms since 1970, offset {split.start})", first)


def _between(
    lowest: Sequence[int],
    highest: Sequence[int],
    whole: Mapping[TopicPartition, Split],
    ranged: Ranged,
) -> dict[TopicPartition, Split]:
    found = {}
    for split in whole.values():
        first = _of_partition(lowest, split.partition, ranged)
        last = _of_partition(highest, split.partition, ranged)
        if first > last:
            raise _error("The range ends before it begins.", ranged)
        if first < split.start:
            raise _gone(ranged, split, f"the first offset left is {split.start}", None)
        end = max(first, min(last + 1, split.end))
        found[split.topic, split.partition] = Split(split.topic, split.partition, first, end)
    return found


def _of_partition(offsets: Sequence[int], partition: int, ranged: Ranged) -> int:
    if len(offsets) == 1:
        return offsets[0]
    if len(offsets) != ranged.topic.partitions:
        raise _error(
            f"There are {len(offsets)} offsets, but topic {ranged.topic.name} has"
            f" {ranged.topic.partitions} partitions.",
            ranged,
            hint="Give one offset for all partitions, or one for each of them.",
        )
    return offsets[partition]


def _gone(ranged: Ranged, split: Split, left: str, first: int | None) -> StatementError:
    instead = f"FROM TIMESTAMP {first} TO …" if first is not None else f"offset {split.start}"
    return _error(
        f"The range of {ranged.name} begins before the first record that is still there:"
        f" of partition {split.partition} of topic {split.topic} {left}.",
        ranged,
        hint=f"Begin with {instead}; retention.ms of the topic says how long records are kept.",
        code=GONE,
    )


def _error(
    message: str, ranged: Ranged, *, hint: str = "", code: str | None = None
) -> StatementError:
    where = ranged.range.span if ranged.range is not None else None
    span = None if where is None else Span(where.line, where.column, where.start, where.end)
    return StatementError(message, hint=hint, span=span, code=code)

"""Judges a finished history. It is independent of the engine: plain lists in, violations out.

`inputs` and `changelog`, `output` are what lies on the log, by partition. Rows of `output` are
(key, (number, payload)) for counting queries, else (key, payload).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Partitions = Sequence[Sequence[tuple[Any, Any]]]


@dataclass(frozen=True, slots=True)
class History:
    """What a run left behind."""

    exactly_once: bool
    counting: bool
    coalesced: bool
    inputs: Mapping[str, Partitions]
    output: Partitions
    changelog: Sequence[Sequence[tuple[Any, Any] | None]] = ()
    """With a None for each transaction marker, so that indexes are offsets."""
    starts: Sequence[int] = ()
    """The first offset of each changelog partition; what lay before it is in a snapshot."""
    disks: Sequence[Mapping[int, tuple[int, Mapping[Any, Any]]]] = ()
    """Durable state of each host: partition -> (changelog position, rows)."""


def complaints(history: History) -> list[str]:
    """Everything that is wrong, worst first; empty for a correct history."""
    if not history.counting:
        found = list(_plain(history))
    elif history.coalesced:
        found = list(_coalesced(history))
    else:
        found = list(_counted(history))
    return found + list(_states(history))


def _by_key(partitions: Partitions) -> dict[Any, list[Any]]:
    rows: dict[Any, list[Any]] = {}
    for partition in partitions:
        for key, value in partition:
            rows.setdefault(key, []).append(value)
    return rows


def _wanted(history: History) -> dict[Any, list[Any]]:
    wanted: dict[Any, list[Any]] = {}
    for partitions in history.inputs.values():
        for key, payloads in _by_key(partitions).items():
            wanted.setdefault(key, []).extend(payloads)
    return wanted


def _invented(wanted: Mapping[Any, Any], got: Mapping[Any, Any]) -> Iterator[str]:
    for key in got.keys() - wanted.keys():
        yield f"key {key} was invented"


def _payloads(history: History, key: Any, want: list[Any], got: list[Any]) -> Iterator[str]:
    lost = Counter(want) - Counter(got)
    if lost:
        yield f"key {key}: lost payloads {sorted(lost)[:8]}"
    foreign = set(got) - set(want)
    if foreign:
        yield f"key {key}: invented payloads {sorted(foreign)[:8]}"
    if history.exactly_once:
        extra = Counter(got) - Counter(want)
        if extra:
            yield f"key {key}: repeated payloads {sorted(extra)[:8]}"


def _order(history: History, key: Any, got: list[Any]) -> Iterator[str]:
    """Records of one key of one source partition keep their order."""
    for name, partitions in history.inputs.items():
        for number, partition in enumerate(partitions):
            source = [payload for k, payload in partition if k == key]
            members = set(source)
            if [payload for payload in got if payload in members] != source:
                yield f"key {key}: order of {name}-{number} not kept"


def _plain(history: History) -> Iterator[str]:
    wanted, got = _wanted(history), _by_key(history.output)
    yield from _invented(wanted, got)
    for key, want in wanted.items():
        yield from _payloads(history, key, want, got.get(key, []))
        if history.exactly_once:
            yield from _order(history, key, got.get(key, []))


def _counted(history: History) -> Iterator[str]:
    wanted, got = _wanted(history), _by_key(history.output)
    yield from _invented(wanted, got)
    for key, want in wanted.items():
        rows = got.get(key, [])
        yield from _payloads(history, key, want, [payload for _number, payload in rows])
        numbers = [number for number, _payload in rows]
        if not history.exactly_once:
            if numbers and numbers[-1] < len(want):
                yield f"key {key}: last number {numbers[-1]}, want {len(want)}"
            continue
        if numbers != list(range(1, len(want) + 1)):
            yield f"key {key}: numbers {numbers[:12]}, want 1..{len(want)}"
        yield from _order(history, key, [payload for _number, payload in rows])


def _coalesced(history: History) -> Iterator[str]:
    wanted, got = _wanted(history), _by_key(history.output)
    yield from _invented(wanted, got)
    for key, want in wanted.items():
        numbers = [number for number, _payload in got.get(key, [])]
        last = numbers[-1] if numbers else 0
        if last < len(want) or (history.exactly_once and last > len(want)):
            yield f"key {key}: last number {last}, want {len(want)}"
        if history.exactly_once and numbers != sorted(set(numbers)):
            yield f"key {key}: numbers {numbers[:12]} do not rise"


def _states(history: History) -> Iterator[str]:
    """State plus the rest of the changelog is the whole changelog, for every host there is; and
    exactly once, the changelog is what the input comes to."""
    whole = [_fold({}, records) for records in history.changelog]
    for host, disk in enumerate(history.disks):
        for partition, (position, rows) in disk.items():
            records = history.changelog[partition]
            if position < (history.starts[partition] if history.starts else 0):
                continue
            if position > len(records):
                yield f"host {host}: state {partition} at {position} leads its changelog"
            elif _fold(rows, records[position:]) != whole[partition]:
                yield f"host {host}: state {partition} at {position} is not of its changelog"
    if history.counting and history.exactly_once and history.changelog:
        total: dict[Any, Any] = {}
        for rows in whole:
            # Negative keys are not of the input: how far each sender's rows are consumed.
            total |= {key: number for key, number in rows.items() if not _is_mark(key)}
        if total != {key: len(payloads) for key, payloads in _wanted(history).items()}:
            yield "the changelog does not come to the counts of the input"


def _is_mark(key: Any) -> bool:
    return isinstance(key, int) and key < 0


def _fold(rows: Mapping[Any, Any], records: Sequence[tuple[Any, Any] | None]) -> dict[Any, Any]:
    folded = dict(rows)
    folded.update(record for record in records if record is not None)
    return folded

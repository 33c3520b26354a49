"""Records that processors send to topics by themselves, besides what they forward."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

Header = tuple[str, bytes | None]


@dataclass(frozen=True, slots=True)
class Sent:
    """A record for a topic, as bytes. `partition` None: by its key; `task`: the partition of the
    task, for a record without a key."""

    topic: str
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[Header, ...]
    partition: int | None
    task: int


def as_sent(
    topic: str,
    key: bytes | str | None,
    value: bytes | str | None,
    timestamp_ms: int,
    headers: Iterable[Header],
    partition: int | None,
    task: int,
) -> Sent:
    """The record of a call of `send`. Raises TypeError for what is no text and no bytes."""
    named = tuple((_text(name), _bytes("a header", text)) for name, text in headers)
    return Sent(
        _text(topic),
        _bytes("a key", key),
        _bytes("a value", value),
        timestamp_ms,
        named,
        partition,
        task,
    )


def _text(name: str) -> str:
    if not isinstance(name, str):
        raise TypeError(f"{name!r} is no name")
    return name


def _bytes(what: str, given: bytes | str | None) -> bytes | None:
    if isinstance(given, str):
        return given.encode()
    if given is None or isinstance(given, bytes):
        return given
    raise TypeError(f"{what} that is sent is bytes or text, not {given!r}")

"""The statements about topics and of a client: what it looks at, and where its statements come from
and go."""

from __future__ import annotations

from dataclasses import dataclass, field

from .span import Span


@dataclass(frozen=True, slots=True)
class PrintTopic:
    """PRINT; `topic` keeps the case it was typed with."""

    topic: str
    from_beginning: bool = False
    interval: int | None = None
    limit: int | None = None
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class AlterTopic:
    """ALTER TOPIC … SET or RESET (an extension); `topic` keeps the case it was typed with. `reset`:
    settings that go back to their default."""

    topic: str
    settings: tuple[tuple[str, str], ...] = ()
    reset: tuple[str, ...] = ()
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Replay:
    """REPLAY topic FROM dead letter topic (an extension); both keep the case they were typed with.
    `limit`: how many letters at most; None for all that are there."""

    topic: str
    letters: str
    limit: int | None = None
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Backup:
    """BACKUP TO 'place' (an extension; never accepted over a network). `keep`: how many backups
    stay there; None for all."""

    place: str
    keep: int | None = None
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Peek:
    """PEEK of a node of a topology; `node` keeps the case it was typed with."""

    query_id: str
    node: str
    limit: int | None = None
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class RunScript:
    """RUN SCRIPT 'file'."""

    path: str
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Spool:
    """SPOOL 'file', or SPOOL OFF when `path` is None."""

    path: str | None
    span: Span | None = field(default=None, compare=False)

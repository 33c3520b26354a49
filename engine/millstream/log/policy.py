"""What the settings of a topic say about the records of an embedded log.

The names and their meaning are Kafka's. What is no number counts as not set.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from millstream.model.errors import StatementError
from millstream.model.nearest import did_you_mean

SEGMENT_BYTES = 256 << 20
COMPACTED_SEGMENT_BYTES = 32 << 20
"""Smaller, because what is in the last segment is not compacted."""
SEGMENT_MS = 7 * 86_400_000
"""The most that the records of a segment are apart where its age matters, as in Kafka."""
SEGMENTS = 4
"""The segments in which a partition with a retention time is."""
TOMBSTONE_MS = 86_400_000
DIRTY_RATIO = 1 / 3
"""Kafka's is a half: a log would have twice the size of its newest records, and more while it is
compacted."""


LARGEST = (1 << 63) - 1
_MS, _BYTES = "a number of milliseconds", "a number of bytes"
SETTINGS = {
    "cleanup.policy": "delete, compact or compact,delete",
    "retention.ms": f"{_MS}, or -1 for no limit",
    "retention.bytes": f"{_BYTES}, or -1 for no limit",
    "segment.ms": f"{_MS} from 1 on",
    "segment.bytes": f"{_BYTES} from 1 on",
    "delete.retention.ms": _MS,
    "min.compaction.lag.ms": _MS,
    "min.cleanable.dirty.ratio": "a number from 0 to 1",
}
"""The settings of a topic that count, and their values."""


@dataclass(frozen=True, slots=True)
class Policy:
    """`deletes`: records older than `oldest_ms` leave, and the first ones while there are more than
    `most_bytes`, None for no limit. `compacts`: of each key, the newest record stays alone once it
    is `lag_ms` old, a tombstone for another `tombstone_ms`; this is done when `dirty_ratio` of the
    bytes that can be compacted were not yet. Segments are closed with `segment_bytes`, or when
    their records are `segment_ms` apart, None if that does not matter."""

    deletes: bool
    compacts: bool
    oldest_ms: int | None
    most_bytes: int | None
    segment_bytes: int
    segment_ms: int | None
    lag_ms: int
    tombstone_ms: int
    dirty_ratio: float

    @property
    def limited(self) -> bool:
        """Whether records leave because of their age or their number."""
        return self.deletes and not (self.oldest_ms is None and self.most_bytes is None)


def check_settings(changes: Mapping[str, str | None]) -> None:
    """Refuse settings that no topic of an embedded log has, and values that mean nothing."""
    for name, value in changes.items():
        if name not in SETTINGS:
            raise StatementError(
                f"A topic has no setting '{name}'.",
                hint=did_you_mean(name, SETTINGS, f"There are {', '.join(SETTINGS)}."),
            )
        if value is not None and not _meaningful(name, value):
            raise StatementError(
                f"'{value}' is no {name} of a topic: it is {SETTINGS[name]}.",
            )


def check_defaults(settings: Mapping[str, str]) -> None:
    """Refuse settings for all new topics that no topic has, or that statements decide."""
    if "cleanup.policy" in settings:
        raise StatementError(
            "cleanup.policy cannot be set for all topics: streams delete, tables compact.",
            hint="ALTER TOPIC changes it for one.",
            code="E-CONFIG",
        )
    check_settings(settings)


def _meaningful(name: str, value: str) -> bool:
    text = value.strip()
    match name:
        case "cleanup.policy":
            return {part.strip() for part in text.split(",")} <= {"delete", "compact"}
        case "min.cleanable.dirty.ratio":
            return re.fullmatch(r"0|1|[01]?\.[0-9]{1,15}", text) is not None and float(text) <= 1
        case "retention.ms" | "retention.bytes" if text == "-1":
            return True
    least = int(name.startswith("segment."))
    return re.fullmatch(r"[0-9]{1,19}", text) is not None and least <= int(text) <= LARGEST


def policy_of(config: Mapping[str, str]) -> Policy:
    """The policy of a topic with these settings."""
    names = {name.strip() for name in config.get("cleanup.policy", "delete").split(",")}
    deletes, compacts = "delete" in names, "compact" in names
    oldest_ms = _number(config, "retention.ms") if deletes else None
    default = COMPACTED_SEGMENT_BYTES if compacts else SEGMENT_BYTES
    return Policy(
        deletes=deletes,
        compacts=compacts,
        oldest_ms=oldest_ms,
        most_bytes=_number(config, "retention.bytes") if deletes else None,
        segment_bytes=_number(config, "segment.bytes", default) or default,
        segment_ms=_segment_ms(config, oldest_ms, compacts=compacts),
        lag_ms=_number(config, "min.compaction.lag.ms", 0) or 0,
        tombstone_ms=_number(config, "delete.retention.ms", TOMBSTONE_MS) or 0,
        dirty_ratio=_ratio(config),
    )


def _segment_ms(config: Mapping[str, str], oldest_ms: int | None, *, compacts: bool) -> int | None:
    default = None
    if oldest_ms is not None or compacts:
        kept = SEGMENT_MS if oldest_ms is None else max(1, oldest_ms // SEGMENTS)
        default = min(SEGMENT_MS, kept)
    return _number(config, "segment.ms", default)


def _number(config: Mapping[str, str], name: str, default: int | None = None) -> int | None:
    """Kafka writes -1 for no limit."""
    text = config.get(name, "").strip()
    return min(int(text), LARGEST) if re.fullmatch(r"[0-9]{1,99}", text) else default


def _ratio(config: Mapping[str, str]) -> float:
    try:
        found = float(config["min.cleanable.dirty.ratio"])
    except (KeyError, ValueError):
        return DIRTY_RATIO
    return found if 0 <= found <= 1 else DIRTY_RATIO

"""Topics of the engine itself: statements may read them, and nothing else."""

from __future__ import annotations

from millstream.service import wordings
from millstream.service.engine import Engine


def refuse_internal(engine: Engine, topic: str, action: str) -> None:
    """StatementError for a statement that would change an internal topic: the engine reads back
    what it wrote there. `action` is for the message."""
    if engine.settings.is_internal(topic):
        raise wordings.INTERNAL_TOPIC(
            action=action,
            topic=topic,
            hint="Use a topic with another name; SHOW ALL TOPICS marks the internal ones.",
        )

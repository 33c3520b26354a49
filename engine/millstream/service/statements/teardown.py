"""Ending persistent queries: what this process has of them, and what the whole service has."""

from __future__ import annotations

import re
from collections.abc import Iterable

from millstream.log.log import Topic
from millstream.model.errors import UnavailableError
from millstream.service.engine import Ended, Engine
from millstream.topology.topology import owner_of

TRIES = 150
"""How often the topics and positions of an ended query are tried to be deleted while others may
still run it; what remains then is swept at the next start."""


def end(engine: Engine, query_id: str, topics: Iterable[Topic]) -> None:
    """End a persistent query for good: its state, positions and internal topics go too.
    `topics`: as they were when it was created."""
    drop_here(engine, query_id, commit=True)
    if engine.shared:
        engine.ended[query_id] = Ended(frozenset(topic.id for topic in topics), TRIES)
    else:
        erase(engine, query_id)


def take_back(engine: Engine, query_id: str) -> None:
    """Undo the start of a query that never came to be. Where others may be starting one of the
    same id at this moment, what that one would use stays."""
    drop_here(engine, query_id, commit=True)
    try:
        erase(engine, query_id)
    except UnavailableError:
        engine.ended[query_id] = Ended(frozenset(), TRIES)


def drop_here(engine: Engine, query_id: str, *, commit: bool) -> None:
    """End a query in this process alone: what is the service's stays. `commit`: what it has done
    last."""
    try:
        stop(engine, query_id, commit=commit)
    finally:
        engine.queries.pop(query_id, None)
    engine.store.drop_query(query_id)


def stop(engine: Engine, query_id: str, *, commit: bool = True) -> None:
    """End what is done for a query in this process; its state stays."""
    if query_id in engine.queries:
        engine.queries[query_id].stopped = True
    if engine.restoring is not None:
        engine.restoring.remove_query(query_id)
    engine.driver.remove(query_id, commit=commit)


def erase(engine: Engine, query_id: str, noted: frozenset[str] = frozenset()) -> None:
    """Delete the positions and the internal topics of a query that has ended.

    Another instance may be giving an id that users choose to a new query at this moment. Of such
    a one only the topics `noted` go, by their ids; the new one writes positions of its own.
    """
    unique = not engine.shared or number_of(query_id) is not None
    if unique:
        engine.log.forget_group(query_id)
    prefix = engine.settings.internal_prefix
    for topic in engine.log.topics():
        if owner_of(topic.name, prefix) == query_id and (unique or topic.id in noted):
            engine.log.delete_topic(topic.name)


def number_of(query_id: str) -> int | None:
    """The number in an id that the engine has chosen: no two attempts to start a query have the
    same. None for an id that a user gave."""
    found = re.fullmatch(r"(?:C[ST]AS_.+|CST_.+|INSERTQUERY)_(\d+)", query_id)
    return int(found[1]) if found else None

"""For every error in a statement about existing objects, clients can rely on the refusal."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from millstream.log.log import Topic
from millstream.model.errors import ConflictError, MillstreamError, StatementError
from millstream.query.results import Rows
from millstream.query.session import Session
from millstream.scripts.text import parse_text
from millstream.service.engine import Engine
from millstream.service.execution import execute_statement
from tests.conformance.cases import Case, load
from tests.conformance.engine_case import execute, in_memory, prepare
from tests.conformance.judge import StopError
from tests.refusals.live import wrong_statements
from tests.refusals.sources import OWN, TOPICS
from tests.refusals.test_refusals import CASES, doubts

SAMPLE = 8


def cases() -> list[Case]:
    """Those whose statements are accepted, each script once, those over HTTP too."""
    found: dict[str, Case] = {}
    for case in load(CASES) if CASES.is_dir() else ():
        if not case.raw["needs_registry"] and case.expect != "error":
            found.setdefault("\n".join(case.statements), case)
    return list(found.values())


def wrong_about(case: Case) -> Iterator[str]:
    """The failures of invalid statements after those of a case were executed."""
    engine = in_memory()
    try:
        session, statements = prepare(case, engine)
        for statement in statements:
            execute(statement, session, engine)
    except StopError:
        # A script of several requests over HTTP, one of which is refused.
        engine.close()
        return
    try:
        yield from _wrong(engine, session)
    finally:
        engine.close()


def _wrong(engine: Engine, session: Session) -> Iterator[str]:
    for name, text, may in wrong_statements(engine.catalog):
        try:
            for piece in parse_text(text):
                result = execute_statement(engine, piece, session)
                if isinstance(result, Rows):
                    list(result)
        except (StatementError, ConflictError) as error:
            yield from doubts(name, text, error)
        except MillstreamError as error:
            yield f"{name}: {type(error).__name__} {error}\n{text}"
        else:
            if not may:
                yield f"{name}: accepted\n{text}"


def test_wrong_statements_about_our_own_sources() -> None:
    engine, session = in_memory(), Session({"auto.offset.reset": "earliest"})
    try:
        for topic in TOPICS:
            engine.log.create_topic(Topic(topic, 1))
        for piece in parse_text(OWN):
            execute_statement(engine, piece, session)
        assert list(_wrong(engine, session)) == []
    finally:
        engine.close()


def test_wrong_statements_about_what_cases_make() -> None:
    """A few cases; `make refusals` takes all of them."""
    given = cases()
    if not given:
        pytest.skip(f"SKIPPED: there are no conformance cases in {CASES}")
    found = [doubt for case in Random(1).sample(given, SAMPLE) for doubt in wrong_about(case)]
    assert len(given) > 500 and found == []

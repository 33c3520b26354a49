"""Whatever is wrong with a statement, the refusal is one that clients can rely on."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from millstream.catalog.catalog import Catalog
from millstream.formats.validate import check_formats
from millstream.functions.catalogue import builtin_catalogue
from millstream.model.errors import ConflictError, MillstreamError, StatementError
from millstream.operators.compile import compile_subtopology
from millstream.plan.build import plan_query
from millstream.plan.define import check_new, create_source, create_type
from millstream.plan.places import placed, placed_by_name
from millstream.plan.sinks import Client, ExistingStream, NewSource
from millstream.processors.definition import processor
from millstream.scripts.text import ParsedStatement, parse_text
from millstream.topology.split import split
from millstream_parser import statements as s
from tests.conformance.cases import load
from tests.refusals.families import families_of
from tests.refusals.mutants import cut, mutants
from tests.unit.processors.test_batches import Doubled
from tests.unit.service.test_processors import Silence

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT.parent / "shared" / "qtt" / "cases"
GOLDEN = sorted((ROOT / "tests" / "plans").glob("*.txt"))
FUNCTIONS = builtin_catalogue().with_processors([processor(Silence), processor(Doubled)])
EVERY = 100
"""The share of the conformance cases' mutants that is tried: all of them take very long."""
ACCEPTED = {
    "NULL in PARTITION BY": "PARTITION BY NULL is how a stream loses its key",
    "RIGHT join": "two tables, or two streams, join so too",
    "kind of join": "streams, and tables by their keys, join in every way",
    "WITHIN": "another length between two streams",
    "WITHIN of nothing": "rows of one and the same time",
    "aggregate beside rows": "the query groups already",
    "aggregate of nothing": "f() aggregates ROWTIME",
    "aggregate in": "HAVING of a query that groups",
    "first item only": "the query needs no other",
    "without first item": "the query needs no such",
    "only a constant": "the result has no key",
    "table function": "on a stream that does not group",
    "window": "the query groups",
    "EMIT FINAL": "of a push query over its window",
    "no key": "a stream may have none",
    "one more KEY": "the key format takes several",
    "one more PRIMARY KEY": "the key format takes several",
    "key format NONE": "there is no key",
    "value format": "the format takes the columns",
    "no KAFKA_TOPIC": "of a query, whose sink has a topic by its name",
    "grouped twice": "there was nothing to group",
    "no GROUP BY": "a push query aggregates all rows",
    "HAVING alone": "of a push query",
    "star twice": "of a push query",
    "item twice": "of a push query",
    "window bound": "the query is windowed",
}

PLACED = 0.94
"""The share of mutants whose refusals must have a position in the text."""
PLACELESS = {
    "plan.TOPIC_PROPERTY_MISSING": "the property is not there",
    "plan.VALUE_FORMAT_MISSING": "the property is not there",
    "plan.COLUMNS_MISSING": "there are no columns",
    "model.NO_PRIMARY_KEY": "no column is marked",
    "catalog.WINDOWED_WITHOUT_KEY": "no column is marked",
    "catalog.NAME_TAKEN": "the statement contradicts one before it as a whole",
    "catalog.REPLACED_READ_ONLY": "the statement contradicts its kind of source as a whole",
}.keys()
"""Refusals that are about no part of a statement: something is missing, or all of it is wrong.
The line of the statement is shown then (`show_statement`)."""
DEFAULTS = {"no VALUE_FORMAT": "ksql.persistence.default.format.value"}
"""The value of a property that the statement lacks."""


def apply(
    piece: ParsedStatement,
    catalog: Catalog,
    properties: Mapping[str, str],
    *,
    compiled: bool = False,
) -> Catalog:
    """The catalog behind a statement, which is planned, and compiled, but not run."""
    statement = piece.statement
    match statement:
        case s.CreateSource():
            source = create_source(statement, catalog, properties)
            with placed_by_name(statement.properties, statement.elements):
                check_formats(source.schema, source.key_format, source.value_format)
            return catalog.with_source(source, replacing=statement.or_replace)
        case s.CreateType():
            return create_type(statement, catalog)
        case s.CreateAs(kind, name, query, given):
            target: NewSource | ExistingStream | Client = NewSource(kind, name, given)
        case s.InsertInto(name, query, given):
            target = ExistingStream(name, given)
        case s.SelectStatement(s.Query(emit=str()) as query):
            target = Client()
        case _:
            return catalog
    planned = plan_query(
        query,
        catalog,
        target=target,
        properties=properties,
        functions=FUNCTIONS,
        script=piece.script,
    )
    if isinstance(statement, s.CreateAs) and planned.sink is not None:
        with placed(query.span), placed_by_name(given):
            check_formats(planned.sink.schema, planned.sink.key_format, planned.sink.value_format)
        check_new(planned.sink, catalog, replacing=statement.or_replace)
        catalog = catalog.with_source(planned.sink, replacing=statement.or_replace)
    if compiled:
        for part in split(planned.node, "Q", partitions=lambda _: 4).subtopologies:
            compile_subtopology(part, FUNCTIONS, headers=False, cached=False)
    return catalog


Refusal = StatementError | ConflictError


def tried(
    script: str, properties: Mapping[str, str], every: int
) -> Iterator[tuple[str, str, MillstreamError | None]]:
    """The mutants of a script's statements with their texts, and how each is refused."""
    catalog = Catalog()
    for piece in parse_text(script):
        for name, text in (*mutants(piece.statement), *cut(piece.text)):
            if zlib.crc32(text.encode()) % every == 0:
                yield name, text, _refusal(text, catalog, properties)
        catalog = apply(piece, catalog, properties)


def wrong(script: str, properties: Mapping[str, str], every: int) -> Iterator[str]:
    """The failures of the mutants of a script's statements."""
    for name, text, error in tried(script, properties, every):
        yield from _judged(name, text, error, properties)


def doubts(name: str, text: str, error: Refusal) -> Iterator[str]:
    """The failures of a refusal of a text: it must be of one family, and the quoted part must be a
    part of the text."""
    found = families_of(error.message)
    if len(found) != 1:
        yield f"{name}: {found} for {error.message!r}\n{text}"
    span = error.span
    if span is None:
        return
    line, column = text.count("\n", 0, span.start) + 1, span.start - text.rfind("\n", 0, span.start)
    inside = 0 <= span.start <= span.end <= len(text)
    if not inside or (span.line, span.column) != (line, column):
        yield f"{name}: {span} lies outside, at {line}:{column}, for {error.message!r}\n{text}"


def _refusal(text: str, catalog: Catalog, properties: Mapping[str, str]) -> MillstreamError | None:
    try:
        for piece in parse_text(text):
            apply(piece, catalog, properties, compiled=True)
    except MillstreamError as error:
        return error
    return None


def _judged(
    name: str, text: str, error: MillstreamError | None, properties: Mapping[str, str]
) -> Iterator[str]:
    if isinstance(error, Refusal):
        yield from doubts(name, text, error)
        if error.span is None and not set(families_of(error.message)) <= PLACELESS:
            yield f"{name}: no place for {error.message!r}\n{text}"
    elif error is not None:
        yield f"{name}: {type(error).__name__} {error}\n{text}"
    elif not name.startswith(("without ", *ACCEPTED)) and DEFAULTS.get(name) not in properties:
        yield f"{name}: accepted\n{text}"


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_every_mutant_of_our_own_statements_is_refused_with_a_known_wording(path: Path) -> None:
    script = path.read_text().split("\n--- ")[0]
    assert list(wrong(script, {}, 1)) == []


def scripts() -> list[tuple[str, Mapping[str, str]]]:
    """The scripts of the conformance cases that are accepted, each once, with their properties."""
    found: dict[str, Mapping[str, str]] = {}
    for case in load(CASES) if CASES.is_dir() else ():
        usable = case.plain and case.expect == "records" and not case.raw.get("test_functions")
        if usable:
            found.setdefault("\n".join(case.statements), case.properties)
    return list(found.items())


def test_mutants_of_the_conformance_cases_are_refused_with_a_known_wording() -> None:
    """One in a hundred; `make refusals` tries all of them."""
    given = scripts()
    if not given:
        pytest.skip(f"SKIPPED: there are no conformance cases in {CASES}")
    mutants_tried = [
        (name, text, error, properties)
        for script, properties in given
        for name, text, error in tried(script, properties, EVERY)
    ]
    found = [doubt for mutant in mutants_tried for doubt in _judged(*mutant)]
    assert len(given) > 500 and found == []
    refusals = [error for _, _, error, _ in mutants_tried if isinstance(error, Refusal)]
    placed = sum(error.span is not None for error in refusals)
    assert placed >= PLACED * len(refusals), f"{placed} of {len(refusals)}"

"""The permissions of statements, and their grants."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import millstream
from millstream.model.errors import StatementError
from millstream.scripts.text import parse_text
from millstream_server.auth.access import Access, authorise, matches, read_rules
from millstream_server.auth.needs import AccessContext, Kind, Need, Operation, needs_of
from millstream_server.auth.principal import ANONYMOUS, Principal
from millstream_server.auth.visible import VisibleCatalog
from tests.server.authority import Line, Wanted, permitted

SETUP = """
SET 'ksql.persistence.default.format.value' = 'JSON';
CREATE STREAM orders (id INT KEY, item STRING) WITH (kafka_topic='raw_orders', partitions=1);
CREATE TABLE people (id INT PRIMARY KEY, name STRING) WITH (kafka_topic='people', partitions=1);
CREATE STREAM pay (id INT KEY, amount INT) WITH (kafka_topic='salaries', partitions=1);
CREATE TABLE totals AS SELECT id, COUNT(*) AS n FROM orders GROUP BY id EMIT CHANGES;
"""
LINES = Path(__file__).with_name("needs.txt").read_text(encoding="utf-8").splitlines()[1:]
CASES = dict(zip(LINES[::2], map(str.strip, LINES[1::2]), strict=True))


@pytest.fixture(scope="module")
def database() -> Iterator[millstream.Database]:
    shout = millstream.udf("SHOUT", "STRING -> STRING", str.upper)
    with millstream.connect(functions=[shout]) as found:
        found.execute(SETUP)
        yield found


@pytest.fixture(scope="module")
def around(database: millstream.Database) -> AccessContext:
    engine = database.engine
    topics = frozenset(topic.name for topic in engine.log.topics())
    return AccessContext(engine.catalog, topics, frozenset({"SHOUT"}))


def needs(text: str, around: AccessContext) -> set[Wanted]:
    (query_id,) = around.catalog.queries
    (piece,) = parse_text(text.replace("{q}", query_id) + ";")
    found = needs_of(piece.statement, around, piece.text)
    return {(need.operation.value, need.kind.value, need.name) for need in found}


def wanted(text: str, around: AccessContext) -> set[Wanted]:
    (query_id,) = around.catalog.queries
    parts = (part.strip(" ,").split(" ") for part in text.replace("{q}", query_id).split(", "))
    if text == "nothing":
        return set()
    return {(operation, kind, "".join(name)) for operation, kind, *name in parts}


@pytest.mark.parametrize("text", CASES)
def test_needs_of_statements(text: str, around: AccessContext) -> None:
    assert needs(text, around) == wanted(CASES[text], around)


@pytest.mark.parametrize(
    ("text", "starts"),
    [
        ("CREATE STREAM x AS SELECT * FROM orders", True),
        ("CREATE TABLE x AS SELECT id, COUNT(*) AS n FROM orders GROUP BY id", True),
        ("INSERT INTO orders SELECT id, 'x' AS item FROM pay", True),
        ("SELECT * FROM orders EMIT CHANGES", False),
        ("CREATE STREAM x (a INT) WITH (kafka_topic='people', value_format='JSON')", False),
    ],
)
@pytest.mark.parametrize(("topic", "made"), [("dead", True), ("salaries", False)])
def test_who_starts_a_query_with_a_dead_letter_topic_may_write_it(
    text: str, starts: bool, topic: str, made: bool, around: AccessContext
) -> None:
    properties = {"errors.dead.letter.queue.topic.name": topic}
    more = needs(text, replace(around, properties=properties)) - needs(text, around)
    wanted = {("WRITE", "topic", topic)} | ({("CREATE", "topic", topic)} if made else set())
    assert more == (wanted if starts else set())


def test_ten_thousand_cases_against_another_account(around: AccessContext) -> None:
    chance = random.Random(6)
    statements = []
    for text, expected in CASES.items():
        (query_id,) = around.catalog.queries
        (piece,) = parse_text(text.replace("{q}", query_id) + ";")
        account = wanted(expected, around)
        if "file" not in {kind for _, kind, _ in account}:
            statements.append((needs_of(piece.statement, around, piece.text), account))
    outcomes = {True: 0, False: 0}
    for _ in range(2_000):
        lines = [rule(chance) for _ in range(chance.randrange(12))]
        rules = read_rules("\n".join(line.text() for line in lines))
        roles = set(chance.sample(["a", "b", "admin"], chance.choice((0, 1, 1, 1, 2))))
        if chance.random() < 0.8:
            roles.discard("admin")
        access, who = Access(rules), Principal("u", frozenset(roles))
        for found, account in chance.sample(statements, 5):
            answer = authorise(access, who, found) is None
            assert answer == permitted(lines, "u", roles, account), (lines, roles, account)
            outcomes[answer] += bool(account)
    assert min(outcomes.values()) > 500, "both answers are common"


def rule(chance: random.Random) -> Line:
    operations = (
        ["ALL"] if chance.random() < 0.4 else chance.sample([o.value for o in Operation], 3)
    )
    kind = chance.choice(
        ["topic", "topic", "topic", "source", "query", "type", "function", "service"]
    )
    name = chance.choice(
        ["raw_orders", "salaries", "people", "TOTALS", "S", "ORDERS", "_millstream_x"]
    )
    cut = chance.randrange(len(name) + 1)
    pattern = chance.choice(
        [name, "*", name[:cut] + "*", "*" + name[cut:], f"{name[:1]}*{name[-1:]}"]
    )
    if chance.random() < 0.05:
        pattern = "_millstream_*"
    verdict = "deny" if chance.random() < 0.15 else "allow"
    who = chance.choice(["everyone", "user:u", "user:v", "role:a", "role:b", "role:c"])
    return Line(verdict, who, tuple(operations), kind, pattern)


def test_deny_by_default_and_files_never(around: AccessContext) -> None:
    for text in CASES:
        (query_id,) = around.catalog.queries
        (piece,) = parse_text(text.replace("{q}", query_id) + ";")
        found = needs_of(piece.statement, around, piece.text)
        assert (authorise(Access(), Principal("x"), found) is None) == (not found)
        everything = Access(read_rules("allow everyone ALL topic:*"), open=True)
        files = any(need.kind is Kind.FILE for need in found)
        assert (authorise(everything, ANONYMOUS, found) is not None) == files


def test_every_statement_of_the_language_is_decided(around: AccessContext) -> None:
    class Unheard:
        path = "x"

    found = needs_of(Unheard(), around, "")  # type: ignore[arg-type]
    assert authorise(Access(open=True), ANONYMOUS, found) is not None


def test_a_refusal_names_operation_and_resource() -> None:
    refusal = authorise(Access(), Principal("bob"), {Need(Kind.TOPIC, "salaries", Operation.READ)})
    assert refusal is not None
    assert (refusal.status, refusal.error_code) == (403, 40301)
    assert refusal.message == "Authorization denied to Read on Topic: [salaries]."
    assert "bob" not in refusal.message + refusal.hint and "bob" in refusal.reason


@pytest.mark.parametrize("operation", ["WRITE", "CREATE", "DELETE"])
def test_internal_topics_are_read_only(operation: str) -> None:
    need = Need(Kind.TOPIC, "_millstream_commands", Operation(operation))
    rules = read_rules("allow everyone ALL topic:_millstream_*")
    for access in (Access(rules), Access(open=True)):
        assert not access.allows(Principal("a", frozenset({"admin"})), need)
    read = Need(Kind.TOPIC, "_millstream_commands", Operation.READ)
    assert Access(rules).allows(Principal("a"), read)
    assert not Access(read_rules("allow everyone ALL topic:*")).allows(Principal("a"), read)


def test_what_of_the_catalog_may_be_seen(database: millstream.Database) -> None:
    bob, catalog = Principal("bob", frozenset({"reader"})), database.engine.catalog
    sight = VisibleCatalog(
        catalog, Access(read_rules("allow role:reader READ topic:raw_orders")), bob
    )
    (query_id,) = catalog.queries
    assert [name for name in catalog.sources if sight.source(name)] == ["ORDERS"]
    assert sight.topic("raw_orders") and not sight.topic("salaries")
    assert not sight.source("NOWHERE")
    assert not sight.query(query_id) and not sight.operates(query_id)
    both = VisibleCatalog(catalog, Access(read_rules("allow role:reader READ topic:*")), bob)
    assert both.query(query_id) and not both.operates(query_id)
    everything = VisibleCatalog(catalog, Access(open=True), ANONYMOUS)
    assert all(map(everything.source, catalog.sources)) and everything.operates(query_id)


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("a", "a", True),
        ("a", "A", False),
        ("*", "", True),
        ("a*", "a", True),
        ("a*a", "a", False),
        ("a*a", "aa", True),
        ("a*b*c", "aXbYc", True),
        ("a*b*c", "acb", False),
        ("*b*", "abc", True),
        ("a?", "ab", False),
        ("a.c", "abc", False),
        ("*a" * 200, "a" * 5_000 + "b", False),
    ],
)
def test_patterns(pattern: str, name: str, expected: bool) -> None:
    assert matches(pattern, name) is expected


@pytest.mark.parametrize(
    "line",
    [
        "allow",
        "permit role:a READ topic:x",
        "allow a READ topic:x",
        "allow role:a FLY topic:x",
        "allow role:a READ planet:x",
        "allow role:a READ topic:",
        "allow role: READ topic:x",
        "allow role:a READ,, topic:x",
    ],
)
def test_rules_that_are_refused(line: str) -> None:
    with pytest.raises(StatementError, match="Line 2"):
        read_rules(f"# rules\n{line}")

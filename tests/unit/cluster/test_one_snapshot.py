"""Pull queries over several tables: all of them as of the same offsets of their sources."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import count
from random import Random

import pytest

import millstream
from millstream import Database
from millstream.cluster import alignment
from millstream.cluster.alignment import Alignment, Positions
from millstream.cluster.scatter_gather import READY_MS
from millstream.log.log import Outcome, TopicPartition
from millstream.model.errors import StatementError, UnavailableError
from millstream.model.settings import EngineSettings
from millstream.query.session import Session
from millstream.runtime.alignment import QueryTopics
from millstream.service.engine import Engine
from millstream.service.execution import open_engine
from tests.snapshots.run import Findings, read
from tests.snapshots.workload import (
    INVARIANTS,
    SCRIPT,
    TABLES,
    Invariant,
    Number,
    appended,
    load,
    transfers,
)
from tests.unit.conftest import EARLIEST

LONG_MS = "600000"
GUARANTEES = ("at_least_once", "exactly_once_v2")


def amount(number: int) -> int:
    return number * 37 % 100 + 1


def transfer(number: int) -> str:
    payer, payee = number * 7 % 11, number * 5 % 13
    return f"INSERT INTO transfers VALUES ('p{payer}', 'q{payee}', {amount(number)});"


class Stepped:
    """A database without threads, whose queries the test steps, and another session."""

    def __init__(self, guarantee: str, *, cached: bool = False) -> None:
        self.now = count(0, 10)
        self.engine: Engine = open_engine(":memory:", EngineSettings(), lambda: next(self.now))
        self.writing = Database(
            self.engine,
            Session(
                {
                    **EARLIEST,
                    "processing.guarantee": guarantee,
                    "cache.max.bytes.buffering": "1000000" if cached else "0",
                }
            ),
        )
        self.reading = Database(self.engine, Session({**EARLIEST, READY_MS: LONG_MS}))
        self.hasty = Database(self.engine, Session({**EARLIEST, READY_MS: "100"}))

    def settle(self, query_id: str) -> None:
        """Have one query, and no other, process and commit all there is."""
        while self.engine.driver.process(query_id):
            pass

    def query_of(self, table: str) -> str:
        found = self.engine.catalog.source(table).query_id
        assert found is not None
        return found


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine is slow."""
    monkeypatch.setattr(alignment, "HOLD_S", 600.0)


@pytest.fixture(params=[(g, c) for g in GUARANTEES for c in (False, True)], ids=str)
def stepped(request: pytest.FixtureRequest) -> Iterator[Stepped]:
    guarantee, cached = request.param
    made = Stepped(guarantee, cached=cached)
    made.writing.execute(SCRIPT)
    made.engine.driver.run_until_idle()
    yield made
    made.engine.close()


def agree(db: Database, invariant: Invariant) -> tuple[Number, Number]:
    ((left, right),) = db.execute(invariant.text)
    assert invariant.holds(left, right), invariant.name
    return left, right


@pytest.mark.parametrize("ahead", TABLES)
def test_tables_of_one_source_are_read_at_the_same_offsets(stepped: Stepped, ahead: str) -> None:
    for number in range(12):
        stepped.writing.execute(transfer(number))
    stepped.settle(stepped.query_of(ahead))
    for invariant in INVARIANTS:
        agree(stepped.reading, invariant)
    assert agree(stepped.reading, INVARIANTS[0]) == (sum(map(amount, range(12))),) * 2


def test_every_prefix_of_the_work_shows_one_snapshot(stepped: Stepped) -> None:
    for number in range(30):
        stepped.writing.execute(transfer(number))
        stepped.settle(stepped.query_of(TABLES[number % len(TABLES)]))
        agree(stepped.reading, INVARIANTS[number % len(INVARIANTS)])


def test_what_comes_behind_the_snapshot_is_read_afterwards(stepped: Stepped) -> None:
    """The queries continue where they were held: no record is lost or read twice."""
    for number in range(20):
        stepped.writing.execute(transfer(number))
        if number % 3 == 0:
            agree(stepped.reading, INVARIANTS[0])
    stepped.engine.driver.run_until_idle()
    for invariant in INVARIANTS[:-1]:
        assert agree(stepped.reading, invariant)[0] > 0


@pytest.fixture
def plain() -> Iterator[Stepped]:
    made = Stepped("at_least_once")
    made.writing.execute(SCRIPT)
    made.engine.driver.run_until_idle()
    yield made
    made.engine.close()


def test_tables_of_two_sources_show_a_transaction_on_both_or_on_neither(plain: Stepped) -> None:
    writer = plain.engine.log.writer("both")
    for number in range(6):
        rows = [(f"k{number}", {"N": number})]
        both = (*appended("debits", rows, number), *appended("credits", rows, number))
        assert writer.transact("", both, {}) is Outcome.COMMITTED
        plain.settle(plain.query_of(("DEBITED", "CREDITED")[number % 2]))
        left, right = agree(plain.reading, INVARIANTS[-1])
        assert left == right == number + 1


class Moving:
    """A log whose ends change with each request, one partition at a time."""

    def __init__(self, engine: Engine) -> None:
        self.asked = 0
        self._ends = engine.log.end_offsets

    def __call__(self, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        self.asked += 1
        return {place: end + self.asked for place, end in self._ends(places).items()}


def test_ends_that_are_of_no_one_moment_are_not_taken(
    plain: Stepped, monkeypatch: pytest.MonkeyPatch
) -> None:
    moving = Moving(plain.engine)
    monkeypatch.setattr(alignment, "HOLD_S", 0.05)
    monkeypatch.setattr(plain.engine.log, "end_offsets", moving)
    with pytest.raises(UnavailableError, match="cannot be read at one moment: records come too"):
        plain.hasty.execute(INVARIANTS[-1].text)
    assert moving.asked > 2


def test_a_paused_query_is_read_where_it_has_read_all(plain: Stepped) -> None:
    for number in range(5):
        plain.writing.execute(transfer(number))
    plain.engine.driver.run_until_idle()
    plain.writing.execute(f"PAUSE {plain.query_of('PAID')};")
    plain.engine.driver.run_until_idle()
    assert agree(plain.reading, INVARIANTS[0])[0] > 0


def test_a_paused_query_that_others_have_left_behind_is_an_error(plain: Stepped) -> None:
    plain.writing.execute(f"PAUSE {plain.query_of('PAID')};")
    plain.engine.driver.run_until_idle()
    plain.writing.execute(transfer(1))
    plain.settle(plain.query_of("RECEIVED"))
    with pytest.raises(StatementError, match=r"CTAS_PAID_\d+ is in state PAUSED") as found:
        plain.reading.execute(INVARIANTS[0].text)
    assert found.value.code == "E-SNAPSHOT"
    assert "Resume the query" in found.value.hint
    plain.reading.execute("SELECT * FROM paid;")
    plain.writing.execute(f"RESUME {plain.query_of('PAID')};")
    assert agree(plain.reading, INVARIANTS[0]) == (amount(1), amount(1))


def test_queries_that_are_all_paused_at_one_place_are_read_there(plain: Stepped) -> None:
    plain.writing.execute(transfer(1))
    plain.engine.driver.run_until_idle()
    for table in ("PAID", "RECEIVED"):
        plain.writing.execute(f"PAUSE {plain.query_of(table)};")
    plain.engine.driver.run_until_idle()
    plain.writing.execute(transfer(2))
    assert agree(plain.reading, INVARIANTS[0]) == (amount(1), amount(1))


def test_a_query_that_has_failed_is_an_error_that_says_why(plain: Stepped) -> None:
    query_id = plain.query_of("PAID")
    plain.engine.runtime.fail(query_id, StatementError("the state is damaged"))
    plain.writing.execute(transfer(1))
    plain.settle(plain.query_of("RECEIVED"))
    with pytest.raises(StatementError, match=r"in state ERROR \(the state is damaged\)"):
        plain.reading.execute(INVARIANTS[0].text)


def test_a_query_that_is_far_behind_blocks_no_other_one(
    plain: Stepped, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alignment, "LAG_RECORDS_MAX", 10)
    writer = plain.engine.log.writer("many")
    writer.append(appended("transfers", transfers(Random(0), 50), 0))
    plain.settle(plain.query_of("RECEIVED"))
    with pytest.raises(UnavailableError, match=r"CTAS_PAID_\d+ has some 50 records to read yet"):
        plain.hasty.execute(INVARIANTS[0].text)
    plain.settle(plain.query_of("PAID"))
    agree(plain.reading, INVARIANTS[0])


def test_one_table_is_read_as_it_is(plain: Stepped) -> None:
    """Nothing is held for a query that names one table, be it several times."""
    plain.writing.execute(transfer(1))
    text = "SELECT (SELECT SUM(n) FROM paid) AS a, (SELECT SUM(amount) FROM paid) AS b;"
    assert list(plain.reading.execute(text)) == [(None, None)]
    assert list(plain.reading.execute("SELECT * FROM paid;")) == []


def explained(db: Database, text: str) -> dict[str, str]:
    return dict(db.execute(f"EXPLAIN {text}"))


def test_explain_shows_the_offsets_of_each_query(plain: Stepped) -> None:
    for number in range(5):
        plain.writing.execute(transfer(number))
    plain.settle(plain.query_of("PAID"))
    ends = [plain.engine.log.end_offset("transfers", number) for number in range(3)]
    told = explained(plain.reading, INVARIANTS[0].text)
    assert told["STATEMENT"] == INVARIANTS[0].text.rstrip(";")
    assert told["POSITIONS"].splitlines()[1:] == [
        f"{plain.query_of('PAID')} (keeps PAID)",
        *(f"  transfers-{n}: committed up to {end}, ends at {end}" for n, end in enumerate(ends)),
        f"{plain.query_of('RECEIVED')} (keeps RECEIVED)",
        *(f"  transfers-{n}: committed up to 0, ends at {end}" for n, end in enumerate(ends)),
    ]
    assert told["POSITIONS"].startswith("Several tables: all as of the same offsets.")
    agree(plain.reading, INVARIANTS[0])
    after = explained(plain.reading, INVARIANTS[0].text)["POSITIONS"]
    assert "committed up to 0, ends at 0" in after or min(ends) > 0
    for line in after.splitlines():
        if line.startswith("  "):
            assert line.split("up to ")[1].split(",")[0] == line.rsplit(" ", 1)[1]


def test_explain_shows_queries_behind_others(plain: Stepped) -> None:
    told = explained(plain.reading, "SELECT * FROM paid p JOIN towns t ON p.payer = t.town;")
    lines = [line for line in told["POSITIONS"].splitlines() if not line.startswith(" ")]
    assert [line.split("(")[1] for line in lines[1:]] == [
        "keeps PAID)",
        "feeds those behind it)",
        "keeps TOWNS)",
    ]


def test_explain_of_one_table_and_of_streams(plain: Stepped) -> None:
    told = explained(plain.reading, "SELECT * FROM paid;")["POSITIONS"]
    assert told.startswith("One table: as of the last commit of its query.")
    told = explained(plain.reading, "SELECT * FROM transfers;")["POSITIONS"]
    assert told == "TRANSFERS: a stream, read from the log up to its end"
    with pytest.raises(StatementError, match="A pull query has no PLAN"):
        plain.reading.execute("EXPLAIN (PLAN) SELECT * FROM paid;")


@pytest.mark.parametrize("late", TABLES)
def test_a_snapshot_before_the_last_query_has_committed_is_found(
    plain: Stepped, late: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """These invariants can fail: with one query left behind, one of them does."""
    right = Alignment.advance

    def leaving_behind(own: Alignment, query: QueryTopics, bounds: Positions) -> Positions:
        return {} if query.query_id == plain.query_of(late) else right(own, query, bounds)

    monkeypatch.setattr(Alignment, "advance", leaving_behind)
    for number in range(12):
        plain.writing.execute(transfer(number))
    found = [next(iter(plain.reading.execute(each.text))) for each in INVARIANTS]
    held = [each.holds(*figures) for each, figures in zip(INVARIANTS, found, strict=True)]
    assert not all(held)


@pytest.mark.slow
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_answers_are_of_one_instant_while_records_flow(guarantee: str) -> None:
    findings = Findings()
    properties = {**EARLIEST, "processing.guarantee": guarantee, READY_MS: LONG_MS}
    with millstream.connect(properties=properties) as db:
        db.execute(SCRIPT)
        db.wait()
        with load(db.engine.log, 7, 0.2):
            read([db], 40, findings)
    assert findings.wrong == []
    assert not findings.refused
    assert sum(len(values) for values in findings.seen.values()) > len(INVARIANTS)

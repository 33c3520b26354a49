"""Pull queries over two instances, each of which has the state of some partitions only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream import Database
from millstream.cluster.metadata import (
    HostedPartitions,
    InstanceMetadata,
    PeerView,
    updated_view,
)
from millstream.cluster.partition_read import PartitionRead
from millstream.cluster.routing import assign_reads
from millstream.cluster.scatter_gather import wire_columns
from millstream.model.errors import StatementError, UnavailableError
from millstream.query.conditions import Condition
from tests.patience import PATIENCE_MS
from tests.unit.cluster.two_instances import KEYS, PARTITIONS, Node, database, part_of

NORTH, SOUTH = frozenset({0, 1}), frozenset({2, 3})
ONE_EACH = [next(key for key in KEYS if part_of(key) == p) for p in range(PARTITIONS)]
STANDBY = "SET 'ksql.query.pull.enable.standby.reads' = 'true';"


@pytest.fixture(scope="module")
def databases() -> Iterator[tuple[Database, Database, Database]]:
    opened = database(NORTH), database(SOUTH), database(NORTH | SOUTH)
    yield opened
    for each in opened:
        each.close()


@pytest.fixture
def nodes(databases: tuple[Database, Database, Database]) -> Iterator[tuple[Node, Node]]:
    north, south = (
        Node("north", databases[0], HostedPartitions(NORTH)),
        Node("south", databases[1], HostedPartitions(SOUTH)),
    )
    north.views, south.views = [south.seen()], [north.seen()]
    yield north, south
    for node in (north, south):
        node.leave()


@pytest.fixture
def whole(databases: tuple[Database, Database, Database]) -> Database:
    return databases[2]


QUERIES = (
    "SELECT * FROM totals ORDER BY item;",
    "SELECT item, total FROM totals WHERE total > 50 AND n = 2 ORDER BY total DESC LIMIT 3;",
    "SELECT * FROM totals WHERE item >= 'k2' AND item < 'k9' ORDER BY item;",
    "SELECT * FROM by_shop ORDER BY shop;",
    "SELECT item, n FROM hourly ORDER BY item;",
    "SELECT n, count(*) AS c FROM totals GROUP BY n ORDER BY n;",
    "SELECT t.item, s.most FROM totals t JOIN by_shop s ON t.item = s.shop ORDER BY t.item;",
    "SELECT a.item FROM totals a JOIN totals b ON a.total = b.total ORDER BY a.item;",
    "SELECT item FROM totals WHERE total = (SELECT max(total) FROM totals);",
    "SELECT item, rowtime > 0 AS timed FROM totals ORDER BY item;",
    "SELECT * FROM kept.most ORDER BY value, key;",
    "SELECT value FROM kept.most WHERE key = 'all' ORDER BY value;",
    "SELECT SUM(value) FROM kept.most;",
)


@pytest.mark.parametrize("sql", QUERIES)
def test_each_instance_answers_as_one_with_all_the_state(
    sql: str, nodes: tuple[Node, Node], whole: Database
) -> None:
    expected = list(whole.execute(sql))
    assert expected
    assert [node.rows(sql) for node in nodes] == [expected, expected]


@pytest.mark.parametrize("key", ONE_EACH)
def test_only_the_owner_of_a_key_is_asked(
    key: str, nodes: tuple[Node, Node], whole: Database
) -> None:
    sql = f"SELECT * FROM totals WHERE item = '{key}';"
    for node in nodes:
        assert node.rows(sql) == list(whole.execute(sql))
        elsewhere = part_of(key) not in node.held.active
        assert [ask.partitions for ask in node.asked] == [frozenset({part_of(key)})] * elsewhere


def test_keys_of_a_list_are_asked_where_they_are(nodes: tuple[Node, Node], whole: Database) -> None:
    keys = ONE_EACH[1:3]
    sql = f"SELECT * FROM totals WHERE item IN ({', '.join(map(repr, keys))}) ORDER BY item;"
    assert nodes[0].rows(sql) == list(whole.execute(sql))
    (ask,) = nodes[0].asked
    assert ask.partitions == {2}


def test_a_window_bound_needs_no_more_partitions(nodes: tuple[Node, Node], whole: Database) -> None:
    key = next(key for key in KEYS if part_of(key) in SOUTH)
    sql = f"SELECT item, n FROM hourly WHERE item = '{key}' AND WINDOWSTART > 0;"
    assert nodes[0].rows(sql) == list(whole.execute(sql))
    assert [ask.partitions for ask in nodes[0].asked] == [{part_of(key)}]


def test_where_others_wrote_the_partitions_all_are_asked(nodes: tuple[Node, Node]) -> None:
    key = next(key for key in KEYS if part_of(key) in NORTH)
    nodes[0].rows(f"SELECT * FROM by_shop WHERE shop = '{key}';")
    assert [ask.partitions for ask in nodes[0].asked] == [SOUTH]


def test_conditions_are_tested_where_the_rows_lie(nodes: tuple[Node, Node]) -> None:
    nodes[0].rows("SELECT * FROM totals WHERE item = 'none' OR 1 = 1;")
    nodes[0].rows("SELECT * FROM totals WHERE total > 3 AND 7 >= n AND ucase(item) = 'K1';")
    found = [[(c.column, c.operator, c.values) for c in ask.conditions] for ask in nodes[0].asked]
    assert found == [[], [("TOTAL", ">", (3,)), ("N", "<=", (7,))]]


def test_a_partition_of_a_dead_instance_is_an_error_and_no_empty_answer(
    nodes: tuple[Node, Node],
) -> None:
    north, _ = nodes
    north.views = []
    for sql in ("SELECT * FROM totals;", "SELECT n, count(*) AS c FROM totals GROUP BY n;"):
        with pytest.raises(
            UnavailableError, match=r"E-NOT-READY partition 2 .*no instance"
        ) as told:
            north.rows(sql)
        assert told.value.code == "E-NOT-READY"
    key = next(key for key in KEYS if part_of(key) in NORTH)
    assert north.rows(f"SELECT item FROM totals WHERE item = '{key}';") == [(key,)]


def test_a_restoring_partition_is_an_error(nodes: tuple[Node, Node]) -> None:
    north, south = nodes
    south.held = HostedPartitions(frozenset({2}), {}, {3: 84})
    north.views = [south.seen()]
    for node in nodes:
        with pytest.raises(UnavailableError, match=r"E-NOT-READY partition 3 .*restoring 84 %"):
            node.rows("SELECT * FROM totals;")


def test_one_that_has_lost_a_partition_does_not_answer_for_it(nodes: tuple[Node, Node]) -> None:
    north, south = nodes
    south.held = HostedPartitions(frozenset({2}))
    with pytest.raises(UnavailableError, match=r"E-NOT-READY partition 2 .*does not ans") as told:
        north.rows("SELECT * FROM totals;")
    assert "E-NOT-READY partition 3 of CTAS_TOTALS_1 is held by no instance" in told.value.detail


def test_what_is_lost_while_it_is_read_is_not_answered(nodes: tuple[Node, Node]) -> None:
    north, _ = nodes

    def losing(address: str, request: PartitionRead, timeout_ms: int) -> pa.Table:
        north.held = HostedPartitions(frozenset({0}))
        return north.fetched(address, request, timeout_ms)

    north.fetch = losing
    with pytest.raises(UnavailableError, match="E-NOT-READY partition 1 "):
        north.rows("SELECT * FROM totals;")


def test_a_copy_is_read_where_that_is_allowed(nodes: tuple[Node, Node], whole: Database) -> None:
    north, south = nodes
    sql = "SELECT * FROM totals ORDER BY item;"
    south.held = HostedPartitions(frozenset(), {2: 5, 3: 0})
    north.views = [south.seen()]
    with pytest.raises(UnavailableError, match="partition 2 "):
        north.rows(sql)
    north.db.execute(STANDBY)
    assert north.rows(sql) == list(whole.execute(sql))
    north.db.execute("SET 'ksql.query.pull.max.allowed.offset.lag' = '4';")
    with pytest.raises(UnavailableError, match="partition 2 "):
        north.rows(sql)


def test_a_copy_stands_in_for_an_owner_that_does_not_answer(
    nodes: tuple[Node, Node], whole: Database
) -> None:
    north, south = nodes
    gone = south.exchange.address
    copy = Node("copy", south.db, HostedPartitions(frozenset(), {2: 1, 3: 1}))
    south.exchange.close()
    south.held = HostedPartitions(SOUTH)
    north.views = [south.seen(address=gone), copy.seen()]
    north.db.execute(STANDBY)
    sql = "SELECT * FROM totals ORDER BY item;"
    try:
        assert north.rows(sql) == list(whole.execute(sql))
    finally:
        copy.exchange.close()


def test_a_table_that_the_other_lacks_is_an_error(nodes: tuple[Node, Node]) -> None:
    north, south = nodes
    north.db.execute("CREATE TABLE fresh AS SELECT item, COUNT(*) AS n FROM sales GROUP BY item;")
    query_id = north.db.engine.catalog.source("FRESH").query_id
    assert query_id is not None
    metadata = InstanceMetadata(
        "south", "south1", south.exchange.address, {query_id: HostedPartitions(SOUTH)}
    )
    north.views = [updated_view(None, metadata, 0, 0)]
    with pytest.raises(UnavailableError, match="E-NOT-READY"):
        north.rows("SELECT * FROM fresh;")
    north.db.execute("DROP TABLE fresh;")


def test_a_table_of_another_shape_is_refused_over_there(nodes: tuple[Node, Node]) -> None:
    north, south = nodes
    query_id = str(north.db.engine.catalog.source("TOTALS").query_id)
    odd = PartitionRead("TOTALS", query_id, SOUTH, (("ITEM", "VARCHAR"),))
    with pytest.raises(UnavailableError, match="not known here"):
        north.fetch(south.exchange.address, odd, PATIENCE_MS)


def test_what_is_asked_is_never_run_as_text(nodes: tuple[Node, Node]) -> None:
    north, south = nodes
    source = north.db.engine.catalog.source("TOTALS")
    good = PartitionRead("TOTALS", str(source.query_id), SOUTH, wire_columns(source))
    assert north.fetch(south.exchange.address, good, PATIENCE_MS).num_rows > 0
    value = replace(good, conditions=(Condition("ITEM", "=", ("' OR 1 = 1 --",)),))
    assert north.fetch(south.exchange.address, value, PATIENCE_MS).num_rows == 0
    column = replace(good, conditions=(Condition('ITEM" IS NOT NULL OR "ITEM', "=", ("x",)),))
    with pytest.raises(StatementError, match="no column"):
        north.fetch(south.exchange.address, column, PATIENCE_MS)


def test_the_query_waits_for_a_partition_that_moves(
    nodes: tuple[Node, Node], whole: Database
) -> None:
    north, south = nodes
    found, north.views = north.views, []

    def late() -> list[PeerView]:
        """The heartbeat of South is read at the third poll."""
        looks.append(1)
        return found if len(looks) > 2 else []

    looks: list[int] = []
    north.live = late
    north.db.execute("SET 'millstream.query.pull.ready.timeout.ms' = '60000';")
    sql = "SELECT * FROM totals ORDER BY item;"
    assert north.rows(sql) == list(whole.execute(sql))
    assert len(looks) == 3 and south.held.active == SOUTH


def ask(lag_max: int = -1) -> PartitionRead:
    return PartitionRead("T", "Q", frozenset(range(PARTITIONS)), (), lag_max=lag_max)


def of(name: str, held: HostedPartitions, address: str = "h:1") -> PeerView:
    return updated_view(None, InstanceMetadata(name, name, address, {"Q": held}), 0, 0)


def test_a_standby_here_is_read_only_where_no_owner_answers() -> None:
    own = HostedPartitions(frozenset({0}), {1: 3, 2: 3, 3: 3})
    live = [of("a", HostedPartitions(frozenset({1, 2})))]
    assignment = assign_reads(ask(10), own, [*live, of("b", HostedPartitions(frozenset({3})))])
    assert (assignment.local, assignment.remote) == ({0}, {"a": {1, 2}, "b": {3}})
    assignment = assign_reads(ask(10), own, live, frozenset({"a"}))
    assert (assignment.local, assignment.remote) == ({0, 1, 2, 3}, {})
    with pytest.raises(UnavailableError, match="partition 3 "):
        assign_reads(ask(2), own, live)


def test_the_copy_that_lags_least_is_read() -> None:
    own = HostedPartitions(frozenset({0, 2, 3}), {1: 3})
    live = [
        of("a", HostedPartitions(frozenset(), {1: 2})),
        of("b", HostedPartitions(frozenset(), {1: 1})),
    ]
    assert assign_reads(ask(9), own, live).remote == {"b": {1}}
    assert assign_reads(ask(9), own, live, frozenset({"b"})).remote == {"a": {1}}
    assert assign_reads(ask(9), own, live, frozenset({"a", "b"})).local == {0, 1, 2, 3}


def test_a_restoring_partition_is_read_from_a_copy_only() -> None:
    own = HostedPartitions(frozenset({0, 2, 3}), {}, {1: 20})
    stale = [of("a", HostedPartitions(frozenset({1})))]
    with pytest.raises(UnavailableError, match="partition 1 of Q restoring 20 %"):
        assign_reads(ask(), own, stale)
    assert assign_reads(ask(0), own, [of("b", HostedPartitions(frozenset(), {1: 0}))]).remote == {
        "b": {1}
    }


def test_an_instance_without_an_address_cannot_be_asked() -> None:
    with pytest.raises(UnavailableError, match="does not answer"):
        assign_reads(
            ask(),
            HostedPartitions(frozenset({1, 2, 3})),
            [of("a", HostedPartitions(frozenset({0})), "")],
        )


def test_a_statement_that_is_wrong_is_no_reason_to_ask(nodes: tuple[Node, Node]) -> None:
    with pytest.raises(StatementError):
        nodes[0].rows("SELECT nothing FROM totals;")
    assert nodes[0].asked == []


NAMES = ("a", "b", "c")
PARTS = st.frozensets(st.integers(0, PARTITIONS - 1))
LAGS = st.dictionaries(st.integers(0, PARTITIONS - 1), st.integers(0, 9))
HELD = st.builds(HostedPartitions, PARTS, LAGS, LAGS)


@given(HELD, st.lists(HELD, max_size=3), st.integers(-1, 9), st.frozensets(st.sampled_from(NAMES)))
def test_each_partition_is_read_once_from_its_owner_or_there_is_an_error(
    own: HostedPartitions, others: list[HostedPartitions], lag_max: int, failed: frozenset[str]
) -> None:
    live = [of(name, held) for name, held in zip(NAMES, others, strict=False)]
    readers = [
        own,
        *(held for name, held in zip(NAMES, others, strict=False) if name not in failed),
    ]

    def readable(held: HostedPartitions, partition: int) -> bool:
        return partition in held.active or held.standby.get(partition, 10) <= lag_max

    try:
        assignment = assign_reads(ask(lag_max), own, live, failed)
    except UnavailableError as error:
        partition = int(error.message.split()[2])
        assert all(held.standby.get(partition, 10) > lag_max for held in readers)
        return
    asked = [assignment.local, *assignment.remote.values()]
    assert sorted(p for parts in asked for p in parts) == list(range(PARTITIONS))
    assert not assignment.remote.keys() & failed
    assert all(readable(own, p) for p in assignment.local)
    held_by = dict(zip(NAMES, others, strict=False))
    assert all(readable(held_by[n], p) for n, parts in assignment.remote.items() for p in parts)

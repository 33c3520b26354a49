"""Joins from outside: the node, the key, repartitions, and refusals."""

from __future__ import annotations

import pytest

from millstream.catalog.source import Format
from millstream.model.errors import StatementError
from millstream.model.schema import Schema
from millstream.plan.nodes import (
    ForeignKeyJoin,
    JoinKind,
    Read,
    Repartition,
    StreamStreamJoin,
    StreamTableJoin,
    TableTableJoin,
    Within,
)
from millstream.plan.show import show_plan
from tests.unit.plan.planning import nodes, planned

JOINS = (ForeignKeyJoin, StreamStreamJoin, StreamTableJoin, TableTableJoin)
HOUR = 3_600_000
MET = "sent {} JOIN got WITHIN 1 HOUR ON sent.parcel = got.parcel"


def shape(sql: str) -> tuple[str, list[str]]:
    """The names of the joins, last first, and where rows move by which format."""
    found = list(nodes(planned(sql).node))
    names = " ".join(type(node).__name__ for node in found if isinstance(node, JOINS))
    moved = [str(node.key_format and node.key_format.name) for node in found
             if isinstance(node, Repartition)]  # fmt: skip
    return names, moved


@pytest.mark.parametrize(
    ("query", "joins", "moved"),
    [
        (f"STREAM AS SELECT * FROM {MET.format('')}", "StreamStreamJoin", []),
        ("STREAM AS SELECT * FROM sent s JOIN got g WITHIN 1 HOUR ON s.shelf = g.parcel",
         "StreamStreamJoin", ["KAFKA"]),
        ("STREAM AS SELECT * FROM sent s JOIN got g WITHIN 1 HOUR ON s.shelf = g.shelf",
         "StreamStreamJoin", ["KAFKA", "KAFKA"]),
        ("STREAM AS SELECT * FROM sent s JOIN lost l WITHIN 1 HOUR ON s.parcel = l.parcel",
         "StreamStreamJoin", ["KAFKA"]),
        ("STREAM AS SELECT * FROM sent s JOIN lost l WITHIN 1 HOUR ON s.shelf = l.parcel",
         "StreamStreamJoin", ["DELIMITED"]),
        ("STREAM AS SELECT * FROM two JOIN got WITHIN 1 HOUR ON two.a = got.parcel",
         "StreamStreamJoin", ["KAFKA"]),
        (f"STREAM AS SELECT * FROM {MET.format('FULL')} JOIN shelves ON sent.parcel = nr",
         "StreamTableJoin StreamStreamJoin", []),
        (f"STREAM AS SELECT * FROM {MET.format('')} JOIN shelves ON got.shelf = nr",
         "StreamTableJoin StreamStreamJoin", ["KAFKA"]),
        ("TABLE AS SELECT * FROM t JOIN u ON t.id = u.id", "TableTableJoin", []),
        ("TABLE AS SELECT * FROM t JOIN halls ON t.id = halls.nr", "TableTableJoin", ["KAFKA"]),
        ("TABLE AS SELECT * FROM t JOIN u ON t.id = u.id JOIN shelves ON u.id = shelves.nr",
         "TableTableJoin TableTableJoin", []),
        ("TABLE AS SELECT * FROM shelves s JOIN halls h ON s.hall = h.nr", "ForeignKeyJoin", []),
        ("TABLE AS SELECT * FROM shelves s JOIN halls h ON s.hall = h.nr JOIN t ON s.nr = t.id",
         "TableTableJoin ForeignKeyJoin", []),
        ("STREAM AS SELECT * FROM hop JOIN hop4 WITHIN 1 HOUR ON hop.k = hop4.k",
         "StreamStreamJoin", []),
        ("STREAM AS SELECT * FROM avro_hop a JOIN avro_tumble b WITHIN 1 HOUR ON a.k = b.k",
         "StreamStreamJoin", ["JSON", "JSON"]),
    ],
)  # fmt: skip
def test_shapes(query: str, joins: str, moved: list[str]) -> None:
    assert shape(f"CREATE {query.split()[0]} o {query.split(' ', 1)[1]};") == (joins, moved)


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        (f"STREAM AS SELECT * FROM {MET.format('')}", "`SENT_PARCEL` INTEGER KEY"),
        (f"STREAM AS SELECT * FROM {MET.format('LEFT')}", "`SENT_PARCEL` INTEGER KEY"),
        (f"STREAM AS SELECT * FROM {MET.format('RIGHT')}", "`GOT_PARCEL` INTEGER KEY"),
        (f"STREAM AS SELECT * FROM {MET.format('FULL')}", "`ROWKEY` INTEGER KEY"),
        (f"STREAM AS SELECT got.parcel AS p, label FROM {MET.format('')}", "`P` INTEGER KEY"),
        (f"STREAM AS SELECT sent.parcel, label FROM {MET.format('RIGHT')}",
         "`SENT_PARCEL` INTEGER KEY"),
        ("STREAM AS SELECT ROWKEY_1 AS r, label FROM sent s FULL JOIN lost l WITHIN 1 HOUR "
         "ON s.parcel = l.parcel", "`R` INTEGER KEY"),
        ("STREAM AS SELECT * FROM sent s JOIN got g WITHIN 1 HOUR ON s.parcel + 1 = g.shelf * 2",
         "`ROWKEY` INTEGER KEY"),
        ("STREAM AS SELECT * FROM sent s JOIN got g WITHIN 1 HOUR ON s.parcel + 1 = g.shelf",
         "`G_SHELF` INTEGER KEY"),
        (f"STREAM AS SELECT * FROM {MET.format('FULL')} PARTITION BY ROWKEY",
         "`ROWKEY` INTEGER KEY"),
        ("TABLE AS SELECT * FROM t JOIN u ON t.id = u.id FULL JOIN shelves ON t.id = nr",
         "`ROWKEY` INTEGER KEY"),
        ("TABLE AS SELECT wide.*, colour FROM shelves JOIN wide ON hall = a",
         None),
        ("TABLE AS SELECT nr, b FROM shelves JOIN wide ON hall = a", "`NR` INTEGER KEY"),
    ],
)  # fmt: skip
def test_keys(query: str, keys: str | None) -> None:
    sql = f"CREATE {query.split()[0]} o {query.split(' ', 1)[1]};"
    if keys is None:
        with pytest.raises(StatementError, match="Missing column: `NR`"):
            planned(sql)
        return
    sink = planned(sql).sink
    assert sink is not None and str(Schema(sink.schema.key)) == keys


def test_windows_and_grace_in_milliseconds() -> None:
    for clause, within in (
        ("1 HOUR", Within(HOUR, HOUR, None)),
        ("(0 SECONDS, 2 MINUTES)", Within(0, 120_000, None)),
        ("1 HOUR GRACE PERIOD 5 MILLISECONDS", Within(HOUR, HOUR, 5)),
        ("(1 HOUR, 1 DAY) GRACE PERIOD 0 SECONDS", Within(HOUR, 24 * HOUR, 0)),
    ):
        sql = MET.format("").replace("1 HOUR", clause)
        plan = planned(f"CREATE STREAM o AS SELECT * FROM {sql};")
        (join,) = [node for node in nodes(plan.node) if isinstance(node, StreamStreamJoin)]
        assert (join.within, join.join) == (within, JoinKind.INNER)


def test_both_sides_of_a_table_join_have_their_earlier_rows() -> None:
    plan = planned("CREATE TABLE o AS SELECT * FROM shelves s JOIN halls h ON s.hall = h.nr;")
    assert all(node.materialised for node in nodes(plan.node) if isinstance(node, Read))
    (join,) = [node for node in nodes(plan.node) if isinstance(node, ForeignKeyJoin)]
    assert join.key_format == Format("JSON")
    assert join.foreign_key.name not in join.schema.names


def test_windows_of_different_lengths_meet_by_their_start() -> None:
    sql = "SELECT * FROM avro_hop a JOIN avro_tumble b WITHIN 1 HOUR ON a.k = b.k EMIT CHANGES;"
    assert "(B_WINDOWSTART + 4000) AS WINDOWEND" in show_plan(planned(sql).node)


def test_windowed_streams_show_their_bounds_with_the_name_of_the_source() -> None:
    sql = "CREATE STREAM o AS SELECT * FROM hop JOIN hop4 WITHIN 1 HOUR ON hop.k = hop4.k;"
    sink = planned(sql).sink
    assert sink is not None and sink.window is not None
    assert sink.schema.names == (
        *("HOP_K", "HOP_WINDOWSTART", "HOP_WINDOWEND", "HOP_V"),
        *("HOP4_K", "HOP4_WINDOWSTART", "HOP4_WINDOWEND", "HOP4_V"),
    )


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (f"STREAM AS SELECT label FROM {MET.format('FULL')}", "ROWKEY was added as a synthetic"),
        (f"STREAM AS SELECT label, depot FROM {MET.format('LEFT')}",
         "the join expressions SENT.PARCEL or GOT.PARCEL in its projection"),
        (f"STREAM AS SELECT *, ROWKEY FROM {MET.format('')}", "'ROWKEY' cannot be resolved"),
        ("STREAM AS SELECT * FROM hop JOIN tumble WITHIN 1 HOUR ON hop.k = tumble.k",
         "Implicit repartitioning of windowed sources"),
        ("STREAM AS SELECT * FROM hop JOIN hop4 WITHIN 1 HOUR ON hop.v = hop4.v",
         "Implicit repartitioning of windowed sources"),
        ("STREAM AS SELECT * FROM hop JOIN avro_hop a WITHIN 1 HOUR ON hop.k = a.k",
         "Implicit repartitioning of windowed sources"),
        ("TABLE AS SELECT * FROM t LEFT JOIN u ON t.id = u.id JOIN shelves ON u.id = shelves.nr",
         "criteria uses the TABLE's key column T_ID."),
        ("TABLE AS SELECT * FROM t FULL JOIN u ON t.id = u.id JOIN shelves ON t.id = shelves.nr",
         "criteria uses the TABLE's key column ROWKEY."),
        ("TABLE AS SELECT * FROM shelves FULL JOIN t ON hall = id", "FULL OUTER JOIN on a foreign"),
        ("TABLE AS SELECT * FROM t JOIN shelves s ON t.id = s.nr JOIN u ON s.hall = u.id",
         "foreign-key table-table joins are not supported as part of n-way joins"),
        ("STREAM AS SELECT * FROM s x JOIN s y WITHIN 1 HOUR ON x.k = y.k", "self joins"),
        ("TABLE AS SELECT * FROM t JOIN u WITHIN 1 HOUR ON t.id = u.id", "drop the window"),
    ],
)  # fmt: skip
def test_refused_joins(query: str, message: str) -> None:
    with pytest.raises(StatementError) as caught:
        planned(f"CREATE {query.split()[0]} o {query.split(' ', 1)[1]};")
    assert message in str(caught.value)

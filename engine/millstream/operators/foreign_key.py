"""The three steps of a foreign key join (see `topology.foreign_key`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from millstream.model.schema import Column, Role, Schema
from millstream.model.types import Primitive
from millstream.operators.program import Sql, StateTable, Upsert
from millstream.operators.relation import (
    SelectFragment,
    Setting,
    column_lookup,
    names,
    nested,
    quoted,
)
from millstream.operators.sql import call, identifier, struct
from millstream.operators.table_join import CHANGES, left_table, pairs, right_table
from millstream.operators.versions import (
    DF,
    HAD,
    RT,
    SQ,
    P,
    VersionedTable,
    kept,
    key_names,
    known,
    matched,
    old_names,
    same_keys,
    value_names,
)
from millstream.plan.nodes import (
    JoinKind,
    SubscriptionResolve,
    SubscriptionSend,
    SubscriptionStoreJoin,
)
from millstream.topology.foreign_key import ASKED, FOUND, HOME, VERSION

SHOWN = "$shown"
"""State column: whether the newest response to a left row is a row of the result."""
_GONE = '"$gone"'
_SIMPLE = (Primitive.INTEGER, Primitive.BIGINT, Primitive.STRING)


def compile_subscribe(
    node: SubscriptionSend, given: SelectFragment, label: str, setting: Setting
) -> SelectFragment:
    """The state holds the foreign key of each left row, and how many changes there have been."""
    given = nested(given, setting)
    column = node.input.schema.find(node.foreign_key)
    assert column is not None
    how = VersionedTable(
        label, Schema((*given.schema.key, column)), old=True, pairs=pairs(node.input)
    )
    part = kept(given, how)
    changes, clock = identifier(f"{label}_changes"), f"{label}_clock"
    numbered = (
        f'SELECT r.*, coalesce(c."last", 0)'
        f' + row_number() OVER (PARTITION BY r.{P} ORDER BY r.{SQ}) AS "$version"\n'
        f"FROM {part.source} r LEFT JOIN {identifier(clock)} c ON r.{P} = c.{P}\n"
        f"WHERE r.{HAD} OR r.{DF} = 1"
    )
    last = f'SELECT {P}, max("$version") AS "last" FROM {changes} GROUP BY {P}'
    return replace(
        part,
        schema=node.schema,
        source=_messages(node, how, changes, setting),
        steps=(*part.steps, Sql(f"{label}_changes", numbered), Sql(f"{clock}_new", last)),
        writes=(*part.writes, Upsert(clock, f"{clock}_new")),
        tables=(*part.tables, StateTable(clock, (), (("last", "BIGINT"),), plain=True)),
        traced=False,
    )


def _messages(node: SubscriptionSend, how: VersionedTable, changes: str, setting: Setting) -> str:
    """Each change goes to the partition of its foreign key, preceded by one for the foreign key
    that it leaves."""
    (key,) = value_names(how.schema)
    new, old = f"r.{key}", f"r.{old_names(how.schema)[key]}"
    enters = f"a.asked AND r.{DF} = 1"
    texts = {
        node.foreign_key: f"CASE WHEN {enters} THEN {new} ELSE {old} END",
        VERSION.name: 'r."$version"',
        HOME.name: f"r.{P}",
        ASKED.name: "a.asked",
    }
    lookup = column_lookup(node.input.schema)
    columns = _listed(node.schema, lambda name: texts.get(name) or f"r.{lookup(name)}")
    return (
        f"(\n  SELECT {columns}, r.{P},\n"
        f"  row_number() OVER (ORDER BY r.{SQ}, a.asked) - 1 AS {SQ}, r.{RT},\n"
        f"  CASE WHEN {enters} THEN 1 ELSE -1 END::TINYINT AS {DF}{_carried('r', setting)}\n"
        f"  FROM {changes} r, (VALUES (FALSE), (TRUE)) a(asked)\n"
        f"  WHERE a.asked OR (r.{HAD} AND r.{DF} = 1 AND {old} IS NOT NULL "
        f"AND {old} IS DISTINCT FROM {new})\n)"
    )


def _listed(schema: Schema, text: Callable[[str], str]) -> str:
    """The columns of a schema under their physical names."""
    pairs = zip(schema.names, quoted(names(schema)), strict=True)
    return ", ".join(f"{text(name)} AS {physical}" for name, physical in pairs)


def _carried(source: str, setting: Setting) -> str:
    return "".join(f", {source}.{name}" for name in quoted(setting.carried))


def compile_answer(
    node: SubscriptionStoreJoin,
    left: SelectFragment,
    right: SelectFragment,
    label: str,
    setting: Setting,
) -> SelectFragment:
    """The state holds the right table and the subscriptions to its keys. Left changes join the
    right row as of their `$seq`; right changes join all subscriptions at that moment."""
    left, right = nested(left, setting), nested(right, setting)
    of_right = VersionedTable(right_table(label), right.schema, old=True, pairs=pairs(node.right))
    of_left = VersionedTable(left_table(label), _subscriptions(node, left.schema), old=False)
    (key,) = key_names(left.schema)
    table = kept(replace(right, where=(*right.where, *_not_null(right.schema))), of_right)
    subscribed = kept(replace(left, where=(f"{key} IS NOT NULL",)), of_left)
    asked = _to_the_asking(node, left, of_right, setting)
    renewed = _to_all_subscribed(node, of_left, of_right, setting)
    order = ", ".join((SQ, *_key_order(node)))
    return replace(
        table,
        schema=node.schema,
        source=f"(\n  SELECT * REPLACE (row_number() OVER (ORDER BY {order}) - 1 AS {SQ}) FROM (\n"
        f"  {asked}\n  UNION ALL\n  {renewed}\n  )\n)",
        steps=(*subscribed.steps, *table.steps),
        writes=(*subscribed.writes, *table.writes),
        tables=(*subscribed.tables, *table.tables),
        traced=False,
        nested=left.nested,
    )


def _not_null(schema: Schema) -> tuple[str, ...]:
    return tuple(f"{name} IS NOT NULL" for name in key_names(schema))


def _subscriptions(node: SubscriptionStoreJoin, asking: Schema) -> Schema:
    """By foreign key and left key."""
    keys = {column.name for column in node.schema.key}
    roles = [
        replace(column, role=Role.KEY if column.name in keys else column.role)
        for column in asking.columns
        if column.name != ASKED.name
    ]
    return Schema.of(roles)


def _to_the_asking(
    node: SubscriptionStoreJoin, left: SelectFragment, of_right: VersionedTable, setting: Setting
) -> str:
    same = " AND ".join(same_keys("b", left.schema, "o", of_right.schema))
    mine, theirs = column_lookup(left.schema), column_lookup(of_right.schema)

    def text(name: str) -> str:
        if name == FOUND.name:
            return 'coalesce(o."$live", FALSE)'
        if left.schema.find(name) is not None:
            return f"b.{mine(name)}"
        return f'CASE WHEN o."$live" THEN o.{theirs(name)} END'

    return (
        f"SELECT {_listed(node.schema, text)}, b.{mine(HOME.name)} AS {P}, b.{SQ},\n"
        f'  greatest(b.{RT}, CASE WHEN o."$live" THEN o.{RT} END) AS {RT}, b.{DF}'
        f"{_carried('b', setting)}\n"
        f"  FROM (SELECT * FROM {left.source} WHERE {mine(ASKED.name)}) b\n"
        f"  ASOF LEFT JOIN (\n  {known(of_right, left.source, key_names(left.schema))}\n  ) o\n"
        f"  ON {same} AND b.{SQ} > o.{SQ}"
    )


def _to_all_subscribed(
    node: SubscriptionStoreJoin, of_left: VersionedTable, of_right: VersionedTable, setting: Setting
) -> str:
    (right_key,) = key_names(of_right.schema)
    key, *_ = by = key_names(of_left.schema)
    mine, theirs = column_lookup(of_left.schema), column_lookup(of_right.schema)
    rows, partition = identifier(f"{of_right.table}_rows"), ", ".join((P, *by))

    def text(name: str) -> str:
        if name == FOUND.name:
            return f"r.{DF} = 1"
        if of_left.schema.find(name) is not None:
            return f"s.{mine(name)}"
        return f"CASE WHEN r.{DF} = 1 THEN r.{theirs(name)} END"

    return (
        f"SELECT {_listed(node.schema, text)}, s.{mine(HOME.name)} AS {P}, r.{SQ},\n"
        f"  greatest(r.{RT}, s.{RT}) AS {RT}, 1::TINYINT AS {DF}{_carried('r', setting)}\n"
        f"  FROM (SELECT * FROM {rows} WHERE {HAD} OR {DF} = 1) r JOIN (\n"
        f'  SELECT *, lead({SQ}) OVER (PARTITION BY {partition} ORDER BY {SQ}) AS "$until"\n'
        f"  FROM (\n  {known(of_left, rows, (right_key,))}\n  )\n  ) s\n"
        f'  ON r.{P} = s.{P} AND r.{right_key} = s.{key} AND s."$live"\n'
        f'  AND s.{SQ} < r.{SQ} AND coalesce(r.{SQ} < s."$until", TRUE)'
    )


def _key_order(node: SubscriptionStoreJoin) -> tuple[str, ...]:
    """The left keys in the order of their bytes, as far as SQL can express it."""
    keys = tuple(zip(node.schema.key, key_names(node.schema), strict=True))
    if not all(column.type in _SIMPLE for column, _ in keys):
        return tuple(key for _, key in keys)
    match node.key_format.name:
        case "KAFKA":
            return tuple(
                text
                for column, key in keys
                for text in ((key,) if column.type is Primitive.STRING else (f"{key} < 0", key))
            )
        case "JSON" if len(keys) > 1:
            members = [(column.name, key) for column, key in keys]
            return (f"{call('to_json', struct(members))}::VARCHAR",)
        case "JSON":
            return (f"to_json({keys[0][1]})::VARCHAR",)
        case "DELIMITED":
            return tuple(f"{key}::VARCHAR" for _, key in keys)
        case _:
            return tuple(key for _, key in keys)


def compile_settle(
    node: SubscriptionResolve, given: SelectFragment, label: str, setting: Setting, *, old: bool
) -> SelectFragment:
    """The state holds the version of the newest response to each left row and its result, also for
    deleted rows: a response to an earlier version may still arrive."""
    given = nested(given, setting)
    schema = _settled(node)
    how = VersionedTable(label, schema, old=True)
    source = _newest(node, given, how, setting)
    newest = SelectFragment(schema, source, nodes=given.nodes, nested=given.nested)
    part = kept(newest, how)
    olds, lookup = old_names(schema), column_lookup(schema)
    shown, before = lookup(SHOWN), f"coalesce({olds[lookup(SHOWN)]}, FALSE)"

    def text(name: str) -> str:
        own = lookup(name)
        return f"CASE WHEN c.change = 1 THEN {own} ELSE {olds[own]} END" if own in olds else own

    replaced = before if old else f"{before} AND NOT {shown}"
    source = (
        f"(\n  SELECT {_listed(node.schema, text)}, {P}, {SQ}, {RT},\n"
        f"  CASE WHEN c.change = 1 AND NOT {shown} THEN 0 ELSE c.change END::TINYINT AS {DF}"
        f"{_carried('b', setting)}\n"
        f"  FROM {part.source} b, {CHANGES}\n"
        f"  WHERE CASE WHEN c.change = 1 THEN {shown} OR ({_GONE} AND NOT {before})\n"
        f"  ELSE {replaced} END\n)"
    )
    return replace(
        part,
        schema=node.schema,
        source=source,
        steps=(*given.steps, *part.steps),
        writes=(*given.writes, *part.writes),
        tables=(*given.tables, *part.tables),
        traced=given.traced,
    )


def _settled(node: SubscriptionResolve) -> Schema:
    """The stored columns of a left row."""
    return Schema((*node.schema.columns, VERSION, Column(SHOWN, Primitive.BOOLEAN)))


def _newest(
    node: SubscriptionResolve, given: SelectFragment, how: VersionedTable, setting: Setting
) -> str:
    """The responses that are not older than an earlier one, with their results."""
    lookup, keys = column_lookup(given.schema), key_names(given.schema)
    version, found = lookup(VERSION.name), lookup(FOUND.name)
    shown = f"b.{DF} = 1" if node.join is JoinKind.LEFT else f"b.{DF} = 1 AND b.{found}"
    partition = ", ".join(f"b.{name}" for name in (P, *keys))
    texts = {VERSION.name: f"b.{version}", SHOWN: shown}
    texts |= {column.name: f"b.{lookup(column.name)}" for column in node.schema.key}

    def text(name: str) -> str:
        return texts.get(name) or f"CASE WHEN {shown} THEN b.{lookup(name)} END"

    return (
        f"(\n  SELECT {_listed(how.schema, text)}, b.{P}, b.{SQ}, b.{RT}, 1::TINYINT AS {DF},\n"
        f"  b.{DF} <> 1 AS {_GONE}{_carried('b', setting)}\n"
        f"  FROM {given.source} b LEFT JOIN {identifier(how.table)} s "
        f"ON {matched(keys, 'b', 's')}\n"
        f"  QUALIFY b.{version} >= greatest(s.{version}, max(b.{version}) OVER (\n"
        f"  PARTITION BY {partition} ORDER BY b.{SQ} ROWS UNBOUNDED PRECEDING))\n)"
    )


def settled_rows(node: SubscriptionResolve, table: str) -> str:
    """The rows of the join, from its state table."""
    lookup = column_lookup(_settled(node))
    listed = _listed(node.schema, lookup)
    return f"(SELECT {listed}, {P}, {RT} FROM {table} WHERE {lookup(SHOWN)})"

"""A foreign key join as three steps in three sub-topologies.

Each left row subscribes at the partition of its foreign key. From there it gets a response with the
right row of that key, at each change; the newest response determines the result. A left row carries
a version, and responses to older versions are ignored. This follows KIP-213, except that KIP-213
uses a hash of the row, which does not distinguish a row from an earlier equal one.
"""

from __future__ import annotations

from dataclasses import replace

from millstream.catalog.source import Format
from millstream.model.expressions import ColumnRef
from millstream.model.schema import Column, Role, Schema
from millstream.model.types import BIGINT, BOOLEAN, INTEGER
from millstream.plan.nodes import (
    ForeignKeyJoin,
    Named,
    Node,
    Project,
    Read,
    Repartition,
    SubscriptionResolve,
    SubscriptionSend,
    SubscriptionStoreJoin,
    inputs,
    with_inputs,
)

VERSION = Column("$version", BIGINT)
HOME = Column("$home", INTEGER)
ASKED = Column("$asked", BOOLEAN)
FOUND = Column("$found", BOOLEAN)
SUBSCRIPTION, RESPONSE = "subscription", "response"


def lowered(node: Node) -> Node:
    """The same plan with foreign key joins split into their three steps."""
    below = with_inputs(node, lowered)
    return _steps(below) if isinstance(below, ForeignKeyJoin) else below


def _steps(node: ForeignKeyJoin) -> Node:
    name, left, right = node.foreign_key.name, node.left.schema, node.right.schema
    column = Column(name, node.foreign_key.expression.type)
    with_key = Project(
        node.left,
        (*_references(left), node.foreign_key.expression),
        Schema((*left.columns, column)),
    )
    carried = tuple(replace(item, role=Role.VALUE) for item in left.columns)
    asking = Schema((replace(column, role=Role.KEY), *carried, VERSION, HOME, ASKED))
    subscribed = Repartition(
        SubscriptionSend(with_key, name, asking),
        (Named(name, ColumnRef(name, column.type)),),
        node.key_format,
        asking,
        drop_null_keys=False,
        topic=SUBSCRIPTION,
    )
    telling = Schema((*left.columns, *right.value, VERSION, FOUND))
    keys = tuple(Named(item.name, ColumnRef(item.name, item.type)) for item in left.key)
    answered = Repartition(
        SubscriptionStoreJoin(subscribed, node.right, telling, _key_format(node.left)),
        keys,
        None,
        telling,
        drop_null_keys=False,
        topic=RESPONSE,
    )
    return SubscriptionResolve(answered, node.join, node.schema)


def _references(schema: Schema) -> tuple[ColumnRef, ...]:
    return tuple(ColumnRef(column.name, column.type) for column in schema.columns)


def _key_format(node: Node) -> Format:
    """The format of the key of the table at the bottom."""
    while not isinstance(node, Read):
        (node,) = inputs(node)
    return node.source.key_format

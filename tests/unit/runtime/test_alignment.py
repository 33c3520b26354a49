from __future__ import annotations

from collections.abc import Collection

import pytest

from millstream.runtime.alignment import QueryTopics, feeding, lineage


def queries(drawn: str) -> list[QueryTopics]:
    """`a+b>q>c`: the query q reads the topics a and b, and writes c."""
    made = []
    for item in drawn.split():
        inputs, query_id, outputs = item.split(">")
        made.append(
            QueryTopics(
                query_id, frozenset(inputs.split("+")), frozenset(filter(None, outputs.split("+")))
            )
        )
    return made


@pytest.mark.parametrize(
    ("drawn", "wanted", "order", "sources"),
    [
        ("s>p>a s>q>b", "p", "p", "s"),
        ("s>p>a s>q>b", "pq", "pq", "s"),
        ("s>p>a u>q>b", "pq", "pq", "su"),
        ("s>p>a a>q>b", "pq", "pq", "s"),
        ("a>q>b s>p>a", "pq", "pq", "s"),
        ("c>r>d b>q>c s>p>b", "r", "pqr", "s"),
        ("s>p>a a>q>b a+b>r>c", "pr", "pqr", "s"),
        ("s>p>a a+u>q>b", "pq", "pq", "su"),
        ("s>p>a t>i>a a>q>b a>r>c", "qr", "piqr", "st"),
        ("s>p>a a>x>z", "p", "p", "s"),
        ("a>p>b b>q>a a>r>c b>t>d", "rt", "pqrt", "ab"),
        ("a>p>a a>q>b", "q", "pq", "a"),
        ("s>p>", "p", "p", "s"),
    ],
)
def test_lineage(drawn: str, wanted: Collection[str], order: str, sources: str) -> None:
    found = lineage(queries(drawn), frozenset(wanted))
    assert sorted(query.query_id for query in found.queries) == sorted(order)
    assert found.sources == frozenset(sources)
    assert found.query_ids == frozenset(order)
    topic_partition = {query.query_id: index for index, query in enumerate(found.queries)}
    for reader in found.queries:
        for writer in found.queries:
            if (writer.outputs & reader.inputs) - found.sources:
                assert topic_partition[writer.query_id] < topic_partition[reader.query_id]


@pytest.mark.parametrize(
    ("drawn", "topics", "found"),
    [
        ("s>p>a s>q>b", "a", "p"),
        ("s>p>a a>q>b b>r>c", "c", "pqr"),
        ("s>p>a a>q>b b>r>c", "ab", "pq"),
        ("s>p>a t>i>a a>q>b", "b", "piq"),
        ("s>p>a a>q>b", "s", ""),
        ("s>p> s>q>b", "s", "p"),
        ("s>q>a a>p>", "a", "pq"),
        ("a>p>b b>q>a", "a", "pq"),
        ("s>p>a", "", ""),
    ],
)
def test_what_feeds_topics(drawn: str, topics: Collection[str], found: str) -> None:
    assert feeding(queries(drawn), topics) == frozenset(found)

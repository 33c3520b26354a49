"""Pull queries by key, prepared once: the same results as any pull query."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from typing import Any

import pytest

from millstream.cluster.partition_read import not_ready
from millstream.model.schema import Schema
from millstream.query.session import Session
from millstream.scripts.text import ParsedStatement
from millstream.statements import keyed
from millstream_server.auth.guard import NoAuthentication
from millstream_server.auth.principal import ANONYMOUS, Principal
from millstream_server.failures import FORBIDDEN, RefusedError
from millstream_server.requests import Asked
from millstream_server.results.framing import ARROW, DELIMITED, JSON, KSQL, PROTOBUF
from millstream_server.results.lookups import Found, Lookups
from millstream_server.results.values import texts_of
from tests.served import served
from tests.server.conftest import RunningServer

BY_KEY = "SELECT * FROM spending WHERE customer = 'ann';"
SAME = "SELECT * FROM spending WHERE customer = 'ann' AND true;"
ALL_TYPES = (
    "CREATE STREAM many (k STRING KEY, i INT, d DOUBLE, n DECIMAL(6, 2), b BOOLEAN, t TIMESTAMP,"
    " day DATE, clock TIME, raw BYTES, a ARRAY<INT>, m MAP<STRING, INT>, s STRUCT<x INT, y STRING>)"
    " WITH (kafka_topic='many', value_format='JSON', partitions=2);"
    "CREATE TABLE latest AS SELECT k, LATEST_BY_OFFSET(i) AS i, LATEST_BY_OFFSET(d) AS d,"
    " LATEST_BY_OFFSET(n) AS n, LATEST_BY_OFFSET(b) AS b, LATEST_BY_OFFSET(t) AS t,"
    " LATEST_BY_OFFSET(day) AS day, LATEST_BY_OFFSET(clock) AS clock, LATEST_BY_OFFSET(raw) AS raw,"
    " LATEST_BY_OFFSET(a) AS a, LATEST_BY_OFFSET(m) AS m, LATEST_BY_OFFSET(s) AS s"
    " FROM many GROUP BY k;"
    "INSERT INTO many VALUES ('x', 1, 0.5, 1.50, true, '2024-01-02T03:04:05.678', '2024-01-02',"
    " '03:04:05', 'aGk=', ARRAY[1, 2], MAP('p' := 7), STRUCT(x := 3, y := 'z'));"
    "INSERT INTO many (k) VALUES ('empty');"
)


@pytest.mark.parametrize("kind", [DELIMITED, JSON, KSQL, PROTOBUF, ARROW])
def test_the_answer_is_that_of_any_pull_query(shop: RunningServer, kind: str) -> None:
    for key in ("ann", "nobody"):
        by_key, same = (sql.replace("ann", key) for sql in (BY_KEY, SAME))
        found = shop.http.post("/query-stream", json={"sql": by_key}, headers={"accept": kind})
        other = shop.http.post("/query-stream", json={"sql": same}, headers={"accept": kind})
        assert found.content == other.content
        assert found.headers["content-type"] == other.headers["content-type"]


def test_while_rows_are_restored_it_waits_as_any_pull_query(
    shop: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = shop.query(BY_KEY)
    asked = []

    def restoring(query_id: str) -> None:
        asked.append(query_id)
        if len(asked) == 1:
            raise not_ready(query_id, 0, "restoring 0 %")

    monkeypatch.setattr(keyed, "check_restored", lambda _registry, name, _sub: restoring(name))
    assert shop.query(BY_KEY) == before
    assert len(asked) == 1, "it was not asked again in this way"


def test_values_of_all_types(door: RunningServer) -> None:
    door.ksql(ALL_TYPES)
    door.engine.drain()
    for key in ("x", "empty"):
        by_key = f"SELECT * FROM latest WHERE k = '{key}'"
        assert door.query(f"{by_key};") == door.query(f"{by_key} AND true;")


def test_columns_may_be_chosen_and_renamed(shop: RunningServer) -> None:
    sql = "SELECT total AS spent, customer FROM spending s WHERE s.customer = 'bob';"
    header, row = shop.query(sql).splitlines()
    assert json.loads(header)["columnNames"] == ["SPENT", "CUSTOMER"]
    assert row == '[20.00,"bob"]'


def test_names_may_be_swapped(shop: RunningServer) -> None:
    sql = "SELECT total AS customer, customer AS total FROM spending WHERE customer = 'bob';"
    assert shop.query(sql).splitlines()[1:] == ['[20.00,"bob"]']


def test_columns_may_be_computed_from_the_state(shop: RunningServer) -> None:
    shop.ksql(
        "CREATE TABLE means AS SELECT customer, AVG(amount) AS mean, COUNT(*) + 1 AS more"
        " FROM orders GROUP BY customer HAVING COUNT(*) > 1;"
    )
    shop.engine.drain()
    for key in ("ann", "bob"):
        by_key = f"SELECT more, customer, mean, mean AS again FROM means WHERE customer = '{key}'"
        assert shop.query(f"{by_key};") == shop.query(f"{by_key} AND true;")


def test_they_count_among_the_pull_queries(shop: RunningServer) -> None:
    shop.query(BY_KEY)
    assert shop.server.pulling == 0
    shop.server.settings = replace(shop.server.settings, pull_queries_max=0)
    refused = shop.http.post("/query-stream", json={"sql": BY_KEY})
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
    assert shop.server.pulling == 0


def test_many_at_once(shop: RunningServer) -> None:
    wanted = {"ann": ['["ann",3.75]'], "bob": ['["bob",20.00]'], "it''s": []}

    def rows(key: str) -> list[str]:
        return shop.query(BY_KEY.replace("ann", key)).splitlines()[1:]

    keys = list(wanted) * 20
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(rows, keys)) == [wanted[key] for key in keys]


def test_what_is_committed_later_is_seen(shop: RunningServer) -> None:
    shop.query(BY_KEY)
    shop.ksql("INSERT INTO orders VALUES ('ann', 1.00);")
    shop.engine.drain()
    assert shop.query(BY_KEY).splitlines()[1:] == ['["ann",4.75]']


def test_statements_change_what_is_prepared(shop: RunningServer) -> None:
    shop.query(BY_KEY)
    shop.ksql("DROP TABLE spending;")
    answer = shop.http.post("/query-stream", json={"sql": BY_KEY})
    assert "SPENDING does not exist" in answer.json()["message"]
    shop.ksql("CREATE TABLE spending AS SELECT customer, COUNT(*) AS n FROM orders"
              " GROUP BY customer;")  # fmt: skip
    shop.engine.drain()
    assert shop.query(BY_KEY).splitlines()[1:] == ['["ann",2]']


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM spending WHERE customer = 5;",
        "SELECT * FROM orders WHERE customer = 'ann';",
        "SELECT * FROM spending WHERE total = 5;",
        "SELECT nothing FROM spending WHERE customer = 'ann';",
    ],
)
def test_other_queries_go_their_own_way(shop: RunningServer, sql: str) -> None:
    """A wrong key, a stream, a column that is none of the key, one that is not there."""
    same = sql.replace(";", " AND true;")
    for _ in range(2):
        found, other = (shop.http.post("/query-stream", json={"sql": text}) for text in (sql, same))
        assert found.status_code == other.status_code
        if found.status_code == 200:
            assert found.text == other.text


class NotAnn(NoAuthentication):
    """No client may query ann."""

    def authorise(self, principal: Principal, statement: ParsedStatement, session: Session) -> None:
        if "ann" in statement.text:
            raise RefusedError(FORBIDDEN, "not ann")


def asked_at_once(
    door: RunningServer, guard: NoAuthentication, *texts: str
) -> list[Found | BaseException | None]:
    """The result of each; the first was sent before, so that all wait for the same batch."""
    lookups = Lookups(door.engine, guard, 1, nullcontext)

    async def find(text: str) -> Found | None:
        return await lookups.find(Asked(text), ANONYMOUS, Session(), as_table=False)

    async def find_all() -> list[Found | BaseException | None]:
        await find(texts[0])
        return await asyncio.gather(*map(find, texts), return_exceptions=True)

    try:
        return asyncio.run(find_all())
    finally:
        lookups.close()


def test_a_row_that_cannot_be_shown_affects_no_other_request(
    door: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shown(rows: Sequence[Sequence[Any]], schema: Schema) -> list[str]:
        if any(row[0] == "far" for row in rows):
            raise OverflowError("There is no text for it")
        return texts_of(rows, schema)

    monkeypatch.setattr("millstream_server.results.lookups.texts_of", shown)
    door.ksql(ALL_TYPES)
    door.ksql("INSERT INTO many (k) VALUES ('far');")
    door.engine.drain()
    texts = [f"SELECT k, t FROM latest WHERE k = '{key}';" for key in ("x", "far")]
    right, wrong = asked_at_once(door, NoAuthentication(), *texts)
    assert isinstance(right, Found)
    assert right.rows == ['["x","2024-01-02T03:04:05.678"]']
    assert isinstance(wrong, OverflowError)


def test_a_refused_request_affects_no_other_one(shop: RunningServer) -> None:
    bob = BY_KEY.replace("ann", "bob")
    right, wrong = asked_at_once(shop, NotAnn(), bob, BY_KEY)
    assert isinstance(right, Found)
    assert right.rows == ['["bob",20.00]']
    assert isinstance(wrong, RefusedError)


def test_each_key_is_authorised(shop: RunningServer) -> None:
    with served(shop.engine, guard=NotAnn()) as found, ExitStack() as stack:
        door = RunningServer(shop.engine, found, stack)
        bob = BY_KEY.replace("ann", "bob")
        assert door.query(bob).splitlines()[1:] == ['["bob",20.00]']
        assert door.http.post("/query-stream", json={"sql": BY_KEY}).status_code == 403

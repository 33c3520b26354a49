"""Pull queries of a database whose state is behind its changelogs: no row is silently missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from millstream.model.errors import UnavailableError
from millstream.model.settings import EngineSettings
from millstream.query.results import Rows
from millstream.query.session import Session
from millstream.scripts.text import parse_text
from millstream.service.engine import Engine
from millstream.service.execution import execute_script, open_engine
from millstream.statements.keyed import KeyedPull, keyed_pull, keyed_rows

SOURCES = """
CREATE STREAM s (k INT KEY, v INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', PARTITIONS=2);
CREATE TABLE t (k INT PRIMARY KEY, v INT) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON', PARTITIONS=2);
"""
TABLES = {
    "count": "CREATE TABLE o AS SELECT k, COUNT(*) n FROM s GROUP BY k;",
    "of another key": "CREATE TABLE o AS SELECT v, COUNT(*) n FROM s GROUP BY v;",
    "windows": "CREATE TABLE o AS SELECT k, COUNT(*) n FROM s WINDOW TUMBLING (SIZE 1 DAY) "
    "GROUP BY k;",
    "sessions": "CREATE TABLE o AS SELECT k, COUNT(*) n FROM s WINDOW SESSION (1 HOUR) GROUP BY k;",
    "foreign key": "CREATE TABLE o AS SELECT t.k, t.v, u.n FROM t LEFT JOIN u ON t.v = u.k;",
    "copy": "CREATE TABLE o AS SELECT * FROM t;",
    "source table": "CREATE SOURCE TABLE o (k INT PRIMARY KEY, v INT) WITH (KAFKA_TOPIC='t', "
    "VALUE_FORMAT='JSON');",
    "join": "CREATE TABLE o AS SELECT t.k, t.v, u.n FROM t LEFT JOIN u ON t.k = u.k;",
}
COUNTS = "CREATE TABLE u AS SELECT k, COUNT(*) n FROM s GROUP BY k;"
BEFORE = {"join": COUNTS, "foreign key": COUNTS}
MORE_SQL = "SELECT x.k, y.k FROM o x JOIN o y ON x.k = y.k;"
"""Beyond the dialect: a query of DuckDB over the rows of tables."""
INSERTS = "".join(
    f"INSERT INTO s (k, v) VALUES ({n % 3}, {n % 4}); INSERT INTO t (k, v) VALUES ({n % 3}, {n});"
    for n in range(12)
)


@contextmanager
def opened(path: Path) -> Iterator[Engine]:
    """An engine whose queries work only when they are told to."""
    engine = open_engine(str(path), EngineSettings(threads=1), lambda: 0)
    try:
        yield engine
    finally:
        engine.close()


def run(engine: Engine, sql: str, **properties: str) -> list[tuple[object, ...]]:
    session = Session({"auto.offset.reset": "earliest", **properties})
    *_, last = list(execute_script(engine, sql, session))
    return sorted(last, key=repr) if isinstance(last, Rows) else []


def ask(engine: Engine, sql: str = "SELECT * FROM o;") -> list[tuple[object, ...]]:
    return run(engine, sql, **{"millstream.query.pull.ready.timeout.ms": "0"})


def made(path: Path, name: str) -> list[tuple[object, ...]]:
    with opened(path) as engine:
        run(engine, SOURCES + BEFORE.get(name, "") + TABLES[name])
        run(engine, INSERTS)
        engine.drain()
        return ask(engine)


def lose_state(path: Path) -> None:
    lost = list(path.parent.glob(f"{path.name}.state*"))
    assert lost
    for file in lost:
        file.unlink()


@pytest.mark.parametrize("name", TABLES)
def test_it_waits_until_the_state_is_restored(tmp_path: Path, name: str) -> None:
    path = tmp_path / "m.db"
    rows = made(path, name)
    assert rows
    with opened(path) as engine:
        assert ask(engine) == rows, "what was closed as it should be is asked at once"
    lose_state(path)
    with opened(path) as engine:
        with pytest.raises(UnavailableError, match="restoring 0 %") as error:
            ask(engine)
        assert error.value.code == "E-NOT-READY"
        if name == "count":
            with pytest.raises(UnavailableError, match="restoring 0 %"):
                ask(engine, MORE_SQL)
        engine.drain()
        assert ask(engine) == rows


def test_a_query_that_is_paused_says_so(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    rows = made(path, "count")
    with opened(path) as engine:
        run(engine, "PAUSE ALL;")
        engine.drain()
        assert ask(engine) == rows
    with opened(path) as engine:
        engine.drain()
        assert ask(engine) == rows, "its state is whole"
    lose_state(path)
    with opened(path) as engine:
        engine.drain()
        with pytest.raises(
            UnavailableError, match=r"not restored, and .* stopped \(PAUSED\)"
        ) as error:
            ask(engine)
        assert error.value.hint.startswith("RESUME CTAS_O_")
        run(engine, "RESUME ALL;")
        engine.drain()
        assert ask(engine) == rows


def test_so_does_what_was_prepared(tmp_path: Path) -> None:
    """The fast path of pull queries by key."""
    path = tmp_path / "m.db"
    made(path, "count")
    lose_state(path)
    text = "SELECT * FROM o WHERE k = 1;"
    with opened(path) as engine:
        (parsed,) = parse_text(text)
        pull = keyed_pull(parsed.statement, text, engine.cluster)
        assert isinstance(pull, KeyedPull)
        with pytest.raises(UnavailableError, match="restoring 0 %"):
            keyed_rows(pull, [1], engine.cluster)
        engine.drain()
        found, indexes = keyed_rows(pull, [1], engine.cluster)
        assert [found[at][:2] for at in indexes[0]] == [(1, 4)]

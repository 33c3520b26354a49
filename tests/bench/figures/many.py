"""Creating many queries, and what they cost when they are idle and when one record arrives."""

from __future__ import annotations

import time
from collections.abc import Iterator

import millstream
from tests.bench.figures.catalogue import Reading
from tests.bench.figures.queries import check, create, one_record
from tests.bench.figures.setting import Setting
from tests.bench.figures.usage import measured, resident_mb, threads


def embedded_one(setting: Setting) -> Iterator[Reading]:
    """A single query."""
    yield from _embedded(setting, 1, {"idle": "idle-1"})


def embedded_few(setting: Setting) -> Iterator[Reading]:
    """A hundred queries."""
    yield from _embedded(setting, setting.scale.few, {"idle": "idle-100", "record": "record-100"})


def embedded_many(setting: Setting) -> Iterator[Reading]:
    """A thousand queries."""
    names = {"create": "create", "memory": "memory", "idle": "idle-1000", "record": "record-1000"}
    yield from _embedded(setting, setting.scale.many, names)


def kafka_one_by_one(setting: Setting) -> Iterator[Reading]:
    """Queries on Kafka, each a text of its own."""
    names = {name: f"kafka-{name}" for name in ("create", "threads", "idle", "record")}
    yield from _readings(setting, setting.scale.shared, names, one_by_one=True)


def kafka_script(setting: Setting) -> Iterator[Reading]:
    """Queries on Kafka, all in one text."""
    names = {"create": "kafka-script"}
    yield from _readings(setting, setting.scale.shared, names, one_by_one=False)


def reopen(setting: Setting) -> Iterator[Reading]:
    """Opening a file that holds queries, until all of them run and have caught up."""
    count, limit = setting.scale.many, setting.scale.limit
    with setting.connect() as database:
        made, _ = create(database, count, limit, one_by_one=False)
        database.execute("INSERT INTO s (id, amount) VALUES (7, 1);")
        database.wait()
    with measured() as used:
        database = setting.connect()
        database.wait()
    check(database, made)
    last = (made - 1) // 2 * 2
    database.execute("INSERT INTO s (id, amount) VALUES (7, 1);")
    database.wait()
    for number in (0, last):
        row = database.execute(f"SELECT n FROM q{number} WHERE id = 7;").fetchone()  # type: ignore[union-attr]
        if row != (2,):
            raise RuntimeError(f"q{number} has lost its state: {row} instead of a count of 2")
    yield _reading("reopen", str(used), made, count)


def _embedded(setting: Setting, count: int, names: dict[str, str]) -> Iterator[Reading]:
    yield from _readings(setting, count, names, one_by_one=False)


def _readings(
    setting: Setting, count: int, names: dict[str, str], *, one_by_one: bool
) -> Iterator[Reading]:
    """`names`: the figures by what is measured. The database is not closed: closing is not part of
    any figure."""
    database = setting.connect()
    limit, prefix = setting.scale.limit, setting.prefix
    made, used = create(database, count, limit, prefix, one_by_one=one_by_one)
    wanted = {step: name for step, name in names.items() if name in setting.wanted}
    if "create" in wanted:
        yield _reading(wanted["create"], str(used), made, count)
    time.sleep(setting.scale.settle)
    if "memory" in wanted:
        yield _reading(wanted["memory"], f"{resident_mb()} MB", made, count)
    if "threads" in wanted:
        yield _reading(wanted["threads"], str(threads()), made, count)
    if "idle" in wanted:
        yield _reading(wanted["idle"], _idle(database, made, setting.scale.idle), made, count)
    if "record" in wanted:
        first, later = one_record(database, made)
        yield _reading(wanted["record"], f"{later} (the first {first})", made, count)


def _idle(database: millstream.Database, count: int, seconds: float) -> str:
    with measured() as used:
        time.sleep(seconds)
    check(database, count)
    return f"{used.percent:.2f} % ({used})"


def _reading(figure: str, text: str, made: int, count: int) -> Reading:
    if made == count:
        return Reading(figure, text)
    return Reading(figure, f"{text}: STOPPED at {made} of {count} queries", complete=False)

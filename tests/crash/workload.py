"""The process that is killed: it works on a log until it dies and prints what was acknowledged.

    python -m tests.crash.workload KIND PATH [--finish]

KIND is `log` (the log alone: appends, and a copying transaction), `compaction` (the log alone, with
a topic that is compacted all the time), `engine` (SQL), `processor` (the
same, and a processor with stores and a schedule), `checkpoints` (the same, with a state that is
lost at half of the starts, and a place for checkpoints that fails), `backfill` (a
table that is made with back-fill and dropped, again and again, while rows come), `spark` (the same,
the past computed on Spark), `replace` (a table that is made anew with back-fill, of all rows or of
the even ones in turn), or `pipeline` (the queries of `engine`, processed in epochs while rows
come, and by an engine at every other start; `MILLSTREAM_CRASH_MASTER` says where Spark is, without
it the epochs are run in the process). `MILLSTREAM_CRASH_FORMAT` is the format of all values, JSON
by default. Standard output: `ready` once, then `acked N` when the record
numbered N, and all before it, must never be lost, and `making`, `made` and `dropping` around the
statements of a back-fill. With --finish it inserts nothing, waits until all there is has been
processed, and ends.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    import millstream

KEYS = 7
PARTITIONS = 4
SOME_ROWS = 5
"""The number of rows before a back-filled table is dropped or replaced."""


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def work_on_log(path: str, finish: bool) -> None:
    """One thread appends numbered records to `numbers`, another copies them to `copies` in
    transactions that move the positions of the group `copying`."""
    from millstream.log.embedded import EmbeddedLog
    from millstream.log.log import Appended, Outcome, Topic
    from millstream.model.batch import raw_batch

    log = EmbeddedLog.open(path)
    for name in ("numbers", "copies"):
        if log.topic(name) is None:
            log.create_topic(Topic(name, PARTITIONS))
    writer = log.writer("copier")

    def copy() -> bool:
        positions = {("numbers", p): 0 for p in range(PARTITIONS)} | log.positions("copying")
        appended, moved = [], {}
        for (topic, partition), position in positions.items():
            fetched = log.read(topic, partition, position, 50)
            if fetched.count:
                appended.append(Appended("copies", partition, fetched.batch, fetched.count))
                moved[topic, partition] = fetched.next_offset
        if moved:
            assert writer.transact("copying", appended, moved) is Outcome.COMMITTED
        log.maintain()
        return bool(moved)

    if finish:
        while copy():
            pass
        log.close()
        return
    woken = threading.Event()
    log.on_news(lambda _news: woken.set())

    def copy_for_ever() -> None:
        while True:
            woken.wait()
            woken.clear()
            while copy():
                pass

    threading.Thread(target=copy_for_ever, daemon=True).start()
    client = log.writer("client")
    number = sum(log.end_offset("numbers", p) for p in range(PARTITIONS))
    rng = random.Random(number)
    say("ready")
    while True:
        appended = []
        for _ in range(rng.randint(1, 3)):
            count = rng.choice((1, 2, 30))
            values = range(number, number + count)
            batch = raw_batch([(b"%d" % (n % KEYS), b'{"N":%d}' % n, n) for n in values])
            appended.append(Appended("numbers", rng.randrange(PARTITIONS), batch, count))
            number += count
        client.append(appended)
        say(f"acked {number - 1}")


def work_on_compaction(path: str, finish: bool) -> None:
    """Append to a topic that is compacted all the time."""
    from tests.crash import compacting

    compacting.work(path, finish)


def work_on_engine(
    path: str,
    finish: bool,
    more: Sequence[str] = (),
    functions: Sequence[millstream.UserFunction] = (),
    *,
    checkpoints: bool = False,
) -> None:
    """Insert numbered rows into a stream that a filter, a count and `more` read. `checkpoints`:
    write some of the state all the time."""
    import millstream
    from millstream.model.settings import EngineSettings

    settings = None
    if checkpoints:
        place = f"{path}.checkpoints"
        settings = EngineSettings(checkpoints_url=place, checkpoint_interval_ms=20, linger_ms=0)
    db = millstream.connect(path, properties=_PROPERTIES, functions=functions, settings=settings)
    if db.engine.restoring is not None and db.engine.restoring.checkpoints is not None:
        db.engine.restoring.checkpoints.fewest = 1
    last = "counted" if more else "counts"
    if not any(topic.name == last for topic in db.engine.log.topics()):
        for sql in (*_DEFINITIONS, *more):
            try:
                db.execute(sql)
            except millstream.ConflictError:
                continue
            except millstream.StatementError as error:
                if "exists" not in str(error):
                    raise
    if finish:
        db.wait()
        db.close()
        return
    insert(db, lambda: None)


def work_on_processor(path: str, finish: bool) -> None:
    """The same, with a processor."""
    import millstream
    from tests.crash.ticking import SQL, Ticking

    work_on_engine(path, finish, [SQL], [millstream.processor(Ticking)])


def work_on_checkpoints(path: str, finish: bool) -> None:
    """The same, with a state that is lost now and then."""
    import millstream
    from tests.crash import losing_state
    from tests.crash.ticking import SQL, Ticking

    losing_state.prepare(path)
    work_on_engine(path, finish, [SQL], [millstream.processor(Ticking)], checkpoints=True)


def work_on_topology(path: str, finish: bool) -> None:
    """The same processor as a node of a topology that is edited again and again, and whose rows
    pass the topic between its query and its sinks."""
    import millstream
    from tests.crash.ticking import Ticking, topology

    functions = topology(Ticking).processors("ticking")
    db = millstream.connect(path, properties=_PROPERTIES, functions=functions)
    for sql in _DEFINITIONS:
        if sql.split()[2].upper() not in db.engine.catalog.sources:
            db.execute(sql)
    application = db.deploy(topology(Ticking), "ticking")
    if finish:
        db.wait()
        db.close()
        return
    rows = threading.Semaphore(0)

    def edit() -> None:
        for _ in itertools.count():
            for _ in range(_ROWS_AN_EDIT):
                rows.acquire()
            application.edit(
                # Each class is another one, and does the same.
                lambda edited: edited.replace_processor("ticking", type("Next", (Ticking,), {}))
            )

    threading.Thread(target=edit, daemon=True).start()
    insert(db, rows.release)


def insert(
    db: millstream.Database, told: Callable[[], None], pause: float | None = None
) -> NoReturn:
    """Insert numbered rows for ever; `told` is called after each row."""
    log = db.engine.log
    number = sum(log.end_offset("numbers", p) for p in range(PARTITIONS))
    say("ready")
    while True:
        db.execute(f"INSERT INTO numbers (k, n) VALUES ('{number % KEYS}', {number});")
        say(f"acked {number}")
        told()
        number += 1
        if pause is not None:
            threading.Event().wait(pause)


def work_on_table(
    path: str,
    finish: bool,
    whole: str,
    statements: Callable[[millstream.Database, Callable[[], None]], None],
    pause: float | None = None,
) -> None:
    """Insert numbered rows while a thread gives statements about a table over them: `statements`
    gets the database and what waits until some rows have come. To finish, `whole` is given."""
    import millstream
    from millstream.model.settings import EngineSettings
    from tests.spark.java import QUICK

    settings = EngineSettings(spark_master="local[2]", spark_options=QUICK)
    db = millstream.connect(path, properties=_PROPERTIES, settings=settings)
    if "NUMBERS" not in db.engine.catalog.sources:
        db.execute(_DEFINITIONS[0])
    if finish:
        db.execute(whole)
        db.wait()
        db.close()
        return
    rows = threading.Semaphore(0)

    def some_rows() -> None:
        for _ in range(SOME_ROWS):
            rows.acquire()

    threading.Thread(target=lambda: statements(db, some_rows), daemon=True).start()
    insert(db, rows.release, pause)


def work_on_backfill(
    path: str, finish: bool, backend: str = "duckdb", pause: float | None = None
) -> None:
    """Insert numbered rows while a table over them is made, with its past from a job, and dropped
    again."""
    from millstream.model.errors import UnavailableError

    filled = _FILLED.format(backend)

    def make_and_drop(db: millstream.Database, some_rows: Callable[[], None]) -> None:
        while True:
            say("making")
            try:
                db.execute(filled)
            except UnavailableError as error:
                # Whose JVM was killed starts another one.
                say(f"refused {error.message}")
                continue
            say("made")
            some_rows()
            say("dropping")
            db.execute("DROP TABLE counts DELETE TOPIC;")

    work_on_table(path, finish, filled, make_and_drop, pause)


def work_on_spark(path: str, finish: bool) -> None:
    """The same, on Spark."""
    work_on_backfill(path, finish, "spark", _PAUSE)


def work_on_pipeline(path: str, finish: bool) -> None:
    """Insert numbered rows while epochs process them, or, every other time, an engine does."""
    from millstream.pipeline.pipeline import open_pipeline
    from millstream.query.session import Session
    from millstream.service.database import Database

    if not finish and _rows(path) % 2:
        work_on_engine(path, finish)
    script = Path(f"{path}.sql")
    script.write_text("".join(_DEFINITIONS))
    master = os.environ.get("MILLSTREAM_CRASH_MASTER")
    pipeline = open_pipeline(path, str(script), _raise, master=master, properties=_PROPERTIES)
    if finish:
        while list(pipeline.epoch()):
            pass
        pipeline.close()
        return

    def process() -> None:
        while True:
            for _ in pipeline.epoch():
                pass

    threading.Thread(target=process, daemon=True).start()
    insert(Database(pipeline.engine, Session(_PROPERTIES)), lambda: None)


def _rows(path: str) -> int:
    """How many rows are there."""
    from millstream.log.embedded import EmbeddedLog

    log = EmbeddedLog.open(path)
    try:
        known = log.topic("numbers") is not None
        return sum(log.end_offset("numbers", p) for p in range(PARTITIONS)) if known else 0
    finally:
        log.close()


def _raise(query_id: str, error: Exception) -> None:
    sys.stdout.write(f"{query_id}: {error}\n")
    os._exit(3)


def work_on_replacing(path: str, finish: bool) -> None:
    """Insert numbered rows while a table over them is made anew, of all of them and of the even
    ones in turn."""

    def make_anew(db: millstream.Database, some_rows: Callable[[], None]) -> None:
        for condition in itertools.cycle(("WHERE n % 2 = 0", "")):
            db.execute(_ANEW.format(condition))
            some_rows()

    work_on_table(path, finish, _ANEW.format(""), make_anew)


_PROPERTIES = {"auto.offset.reset": "earliest", "processing.guarantee": "exactly_once_v2"}
_FORMAT = os.environ.get("MILLSTREAM_CRASH_FORMAT", "JSON")
_DEFINITIONS = (
    "CREATE STREAM numbers (k STRING KEY, n BIGINT) WITH (kafka_topic='numbers', "
    f"value_format='{_FORMAT}', partitions={PARTITIONS});",
    "CREATE STREAM copies WITH (kafka_topic='copies') AS SELECT * FROM numbers WHERE n % 3 <> 0;",
    "CREATE TABLE counts WITH (kafka_topic='counts') AS "
    "SELECT k, COUNT(*) AS c, SUM(n) AS s FROM numbers GROUP BY k;",
)
_FILLED = _DEFINITIONS[2].replace(
    "TABLE counts WITH (", "TABLE IF NOT EXISTS counts WITH (backfill='{}', "
)
_ANEW = (
    "CREATE OR REPLACE TABLE counts WITH (kafka_topic='counts', backfill='duckdb') AS "
    "SELECT k, COUNT(*) AS c, SUM(n) AS s FROM numbers {} GROUP BY k;"
)
_ROWS_AN_EDIT = 5
_PAUSE = 0.01
"""Seconds between rows while Spark works: each job reads all of them."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    works: dict[str, Callable[[str, bool], None]] = {
        "log": work_on_log,
        "compaction": work_on_compaction,
        "engine": work_on_engine,
        "processor": work_on_processor,
        "checkpoints": work_on_checkpoints,
        "topology": work_on_topology,
        "backfill": work_on_backfill,
        "spark": work_on_spark,
        "replace": work_on_replacing,
        "pipeline": work_on_pipeline,
    }
    parser.add_argument("kind", choices=tuple(works))
    parser.add_argument("path")
    parser.add_argument("--finish", action="store_true")
    given = parser.parse_args()
    works[given.kind](given.path, given.finish)


if __name__ == "__main__":
    main()

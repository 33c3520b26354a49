"""Connectors in this process: what they make, how often, and what is left after a restart."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

import millstream
from millstream.connectors.connector import Connector
from millstream.connectors.datagen import Datagen, normal, read_datagen
from millstream.connectors.embedded import MOST_ROWS, EmbeddedConnectors
from millstream.connectors.presets import PRESETS, Row
from millstream.log.embedded import EmbeddedLog
from millstream.log.log import Appended
from millstream.model.batch import raw_batch
from millstream.model.errors import ConflictError, StatementError, UnavailableError
from tests.patience import until

TOPIC = "_connectors"
ORDERS = {"connector.class": "datagen", "quickstart": "orders", "kafka.topic": "orders"}


class Rows:
    """Keeps what is written, in place of a topic; the rest goes to the log."""

    def __init__(self, log: EmbeddedLog) -> None:
        self.rows: list[Row] = []
        self.refused: Exception | None = None
        self._writer = log.writer("connectors")

    def check(self, datagen: Datagen) -> None:
        assert datagen.topic == "orders"

    def prepare(self, datagen: Datagen) -> None:
        assert datagen.partitions == 1

    def append(
        self, datagen: Datagen, rows: Sequence[Row], with_them: Sequence[Appended[pa.Table]]
    ) -> None:
        del datagen
        if self.refused is not None:
            raise self.refused
        self._writer.append(with_them)
        self.rows += rows


class Service:
    """Connectors with a clock of the test's, and without their thread."""

    def __init__(self) -> None:
        self.log = EmbeddedLog.open(":memory:")
        self.out = Rows(self.log)
        self.now = 0.0
        self.connectors = self.opened()

    def opened(self) -> EmbeddedConnectors:
        """As after a restart; their thread is not started, since they are never `start`ed first."""
        made = EmbeddedConnectors(
            self.log, TOPIC, self.out, lambda: 1_000 + int(self.now), lambda: self.now
        )
        made.load()
        return made

    def create(self, name: str = "C", **settings: object) -> None:
        given = {key.replace("_", "."): str(value) for key, value in settings.items()}
        assert self.connectors.create(name, {**ORDERS, **given}) is not None

    def run(self, seconds: float, step: float = 0.05) -> list[int]:
        """Let the time pass; the numbers of the rows that were made meanwhile."""
        before, end = len(self.out.rows), self.now + seconds
        while self.now < end:
            self.now += step
            self.connectors.run_once()
        return [row["orderid"] for row in self.out.rows[before:]]

    def task(self, name: str = "C") -> tuple[str, str]:
        found = self.connectors.connector(name)
        assert found is not None
        (task,) = found.tasks
        return task.state, task.trace


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service()
    yield made
    made.connectors.close()
    made.log.close()


def test_rows_are_half_the_interval_apart_on_average(service: Service) -> None:
    service.create(max_interval=100, random_seed=1)
    assert 900 < len(service.run(50)) < 1100


def test_without_an_interval_each_turn_makes_as_many_as_one_transaction_takes(
    service: Service,
) -> None:
    service.create(max_interval=0)
    assert service.connectors.run_once() > 0
    assert len(service.out.rows) == MOST_ROWS


def test_it_ends_with_the_number_that_is_wanted(service: Service) -> None:
    service.create(max_interval=0, iterations=MOST_ROWS + 5)
    assert service.run(1) == list(range(MOST_ROWS + 5))
    assert service.task() == ("STOPPED", f"All {MOST_ROWS + 5} records are made.")
    assert service.run(1) == []


def test_what_a_sleeping_machine_missed_is_not_made_up_for(service: Service) -> None:
    service.create(max_interval=100)
    service.run(1)
    service.now += 86_400
    assert len(service.run(0.05)) < 100


def test_after_a_restart_it_goes_on_with_the_next_row_and_the_same_seed_gives_the_same_rows(
    service: Service,
) -> None:
    service.create(max_interval=10, random_seed=7, iterations=300)
    service.run(0.3)
    between = len(service.out.rows)
    assert 0 < between < 300
    service.connectors = service.opened()
    service.run(10)
    whole = read_datagen("C", {**ORDERS, "random.seed": "7"}).rows(0, 300, 0, Random())
    timeless = [{**row, "ordertime": 0} for row in service.out.rows]
    assert timeless == [{**row, "ordertime": 0} for row in whole]


def test_a_dropped_one_makes_nothing_and_stays_dropped(service: Service) -> None:
    service.create("A", max_interval=10)
    service.create("B", max_interval=10)
    service.run(0.2)
    assert service.connectors.drop("A")
    assert not service.connectors.drop("A")
    service.connectors = service.opened()
    assert [each.name for each in service.connectors.connectors()] == ["B"]
    service.create("A", max_interval=0, iterations=1)
    service.connectors.drop("B")
    assert service.run(1) == [0]


def test_one_that_cannot_write_for_now_makes_each_row_once(service: Service) -> None:
    service.create(max_interval=10)
    service.run(0.2)
    before = len(service.out.rows)
    service.out.refused = UnavailableError("no space is left")
    assert service.run(3) == []
    assert service.task() == ("RUNNING", "no space is left")
    service.out.refused = None
    later = service.run(3)
    assert later == list(range(before, before + len(later))) != []
    assert service.task() == ("RUNNING", "")


@pytest.mark.parametrize("error", [StatementError("the topic is gone"), ZeroDivisionError()])
def test_one_that_fails_harms_no_other(service: Service, error: Exception) -> None:
    service.create("A", max_interval=10)
    service.out.refused = error
    service.run(0.2)
    service.out.refused = None
    service.create("B", max_interval=10)
    assert service.run(1)[:2] == [0, 1]
    assert service.task("A")[0] == "FAILED"
    assert service.task("B")[0] == "RUNNING"


def test_one_of_a_later_version_is_left_alone(service: Service) -> None:
    service.create("A")
    later = json.dumps({**ORDERS, "quickstart": "weather"}).encode()
    batch = raw_batch([(json.dumps(["config", "L"]).encode(), later, 0)])
    service.log.writer("x").append([Appended(TOPIC, 0, batch, 1)])
    service.connectors = service.opened()
    assert [each.name for each in service.connectors.connectors()] == ["A"]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        (
            {"connector.class": "org.example.Nothing"},
            "'connector.class' cannot be 'org.example.Nothing'",
        ),
        ({"connector.class": ""}, "'connector.class' is missing"),
        ({"quickstart": "weather"}, "'quickstart' cannot be 'weather'"),
        ({"quickstart": ""}, "'quickstart' is missing"),
        ({"kafka.topic": ""}, "'kafka.topic' is missing"),
        ({"max.interval": "-1"}, "'max.interval' cannot be '-1'"),
        ({"max.interval": "1e3"}, "'max.interval' cannot be '1e3'"),
        ({"iterations": "9" * 30}, "'iterations' cannot be"),
        ({"iterations": "-2"}, "'iterations' cannot be"),
        ({"max.intervals": "5"}, "'max.intervals' is no setting"),
        ({"schema.filename": "x"}, "'schema.filename' is no setting"),
        ({"value.converter": "org.example.Csv"}, "'value.converter' cannot be"),
        (
            {"value.converter.schemas.enable": "true"},
            "'value.converter.schemas.enable' cannot be 'true'",
        ),
        ({"key.converter": "org.example.Csv"}, "'key.converter' cannot be"),
        ({"topic.creation.default.partitions": "0"}, "partitions' cannot be '0'"),
    ],
)
def test_what_is_wrong_with_a_configuration_is_told(
    service: Service, changed: Mapping[str, str], says: str
) -> None:
    with pytest.raises(StatementError, match="Connector 'C' cannot be created") as refused:
        service.connectors.create("C", {**ORDERS, **changed})
    assert says in refused.value.message
    assert refused.value.hint
    assert service.connectors.connectors() == ()


def test_short_names_of_settings() -> None:
    assert normal({"CONNECTOR": "datagen", "KAFKA_TOPIC": "t", "max.interval": "5"}) == {
        "connector.class": "datagen",
        "kafka.topic": "t",
        "max.interval": "5",
    }


# ---- as statements, with the thread --------------------------------------------------------------


def connector(db: millstream.Database, name: str = "C") -> Connector:
    assert db.engine.connectors is not None
    found = db.engine.connectors.connector(name)
    assert found is not None
    return found


def ended(db: millstream.Database) -> bool:
    return connector(db).tasks[0].state == "STOPPED"


def made(db: millstream.Database, quickstart: str, **settings: str) -> None:
    given = "".join(f", '{key.replace('_', '.')}'='{value}'" for key, value in settings.items())
    db.execute(
        "CREATE SOURCE CONNECTOR c WITH (CONNECTOR='datagen', 'kafka.topic'='t',"
        f" 'quickstart'='{quickstart}', 'max.interval'=0, 'iterations'=50{given});"
    )
    until(lambda: ended(db))


@pytest.mark.parametrize("quickstart", PRESETS)
def test_every_kind_can_be_read_as_it_is_declared(quickstart: str) -> None:
    """With the columns of `millstream datagen`, the key among those of the value."""
    preset = PRESETS[quickstart]
    columns = ", ".join(" ".join(column) for column in preset.columns)
    with millstream.connect() as db:
        made(db, quickstart, random_seed="3")
        db.execute(f"CREATE STREAM s ({columns}) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON');")
        rows = [tuple(row) for row in db.execute("SELECT * FROM s;")]
        assert len(rows) == 50
        assert not any(value is None for row in rows for value in row)
        kind = preset.columns[0][1]
        db.execute(f"CREATE STREAM k (k {kind} KEY) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='NONE');")
        assert [row[0] for row in db.execute("SELECT k FROM k;")] == [row[0] for row in rows]


@pytest.mark.parametrize("value_format", ["AVRO", "PROTOBUF", "JSON_SR"])
def test_formats_of_the_registry_need_no_columns(value_format: str) -> None:
    with millstream.connect() as db:
        made(db, "orders", value_converter=value_format)
        db.execute(f"CREATE STREAM s WITH (KAFKA_TOPIC='t', VALUE_FORMAT='{value_format}');")
        found = [row[0] for row in db.execute("SELECT ORDERID FROM s;")]
        assert sorted(found) == list(range(50))


def test_keys_as_text() -> None:
    with millstream.connect() as db:
        made(db, "orders", key_converter="org.apache.kafka.connect.storage.StringConverter")
        db.execute("CREATE STREAM s (k STRING KEY) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='NONE');")
        assert [row[0] for row in db.execute("SELECT k FROM s;")][:3] == ["0", "1", "2"]


def test_what_clients_cannot_insert_into_connectors_cannot_write() -> None:
    with millstream.connect() as db:
        db.execute(
            "CREATE STREAM s (k STRING KEY, v INT)"
            " WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='JSON');"
            "CREATE TABLE t WITH (KAFKA_TOPIC='t') AS"
            " SELECT k, COUNT(*) AS n FROM s GROUP BY k EMIT CHANGES;"
        )
        for topic in ("t", "_millstream_commands", "_millstream_connectors"):
            with pytest.raises(StatementError, match="annot"):
                db.execute(
                    "CREATE SOURCE CONNECTOR c WITH ('connector.class'='datagen',"
                    f" 'quickstart'='orders', 'kafka.topic'='{topic}');"
                )
        assert db.execute("SHOW CONNECTORS;").fetchall() == []


def test_names_in_use_and_names_of_nothing() -> None:
    with millstream.connect() as db:
        made(db, "orders")
        again = (
            "CREATE SOURCE CONNECTOR {}c WITH ('connector.class'='datagen',"
            " 'quickstart'='orders', 'kafka.topic'='t');"
        )
        with pytest.raises(ConflictError, match="'C' exists already"):
            db.execute(again.format(""))
        assert "exists already" in str(db.execute(again.format("IF NOT EXISTS ")))
        with pytest.raises(StatementError, match="'X' does not exist"):
            db.execute("DROP CONNECTOR x;")
        assert db.execute("SHOW CONNECTOR PLUGINS;").fetchall() == [("datagen", "SOURCE", "1")]


def went_on(db: millstream.Database, before: int) -> bool:
    return ended(db) or db.engine.log.end_offset("t", 0) > before


def test_no_row_is_lost_or_made_twice_when_the_file_is_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with millstream.connect(path) as db:
        db.execute(
            "CREATE SOURCE CONNECTOR c WITH ('connector.class'='datagen', 'quickstart'='orders',"
            " 'kafka.topic'='t', 'max.interval'=2, 'iterations'=400);"
        )
        until(lambda: db.engine.log.end_offset("t", 0) > 0)
    for _ in range(3):
        with millstream.connect(path) as db:
            until(partial(went_on, db, db.engine.log.end_offset("t", 0)))
    with millstream.connect(path) as db:
        until(lambda: ended(db))
        db.execute("CREATE STREAM s (orderid INT) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON');")
        assert [row[0] for row in db.execute("SELECT orderid FROM s;")] == list(range(400))


def test_no_thread_is_left_without_connectors_or_after_closing() -> None:
    def names() -> list[str]:
        return [thread.name for thread in threading.enumerate() if thread.name == "connectors"]

    with millstream.connect() as db:
        assert names() == []
        made(db, "orders")
        assert names() == ["connectors"]
    assert names() == []


CHILD = """
import sys, millstream
from tests.patience import until
db = millstream.connect(sys.argv[1])
before = db.engine.log.end_offset("t", 0)
until(lambda: db.engine.log.end_offset("t", 0) > before + 5)
print("more", flush=True)
sys.stdin.read()
"""


def test_no_row_is_lost_or_made_twice_by_kills(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with millstream.connect(path) as db:
        db.execute(
            "CREATE SOURCE CONNECTOR c WITH ('connector.class'='datagen', 'quickstart'='orders',"
            " 'kafka.topic'='t', 'max.interval'=1);"
        )
    for _ in range(4):
        with subprocess.Popen(
            [sys.executable, "-c", CHILD, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).resolve().parents[3],
        ) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == b"more\n"
            child.kill()
    with millstream.connect(path) as db:
        db.execute("DROP CONNECTOR c;")
        db.execute("CREATE STREAM s (orderid INT) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON');")
        found = [row[0] for row in db.execute("SELECT orderid FROM s;")]
        assert found == list(range(len(found)))
        assert len(found) > 20

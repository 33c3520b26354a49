"""A server accepts what the library accepts: settings, and Python functions."""

from __future__ import annotations

import sys
from dataclasses import fields
from pathlib import Path

import pytest

from millstream.model.errors import StatementError
from millstream.model.settings import ConnectSettings, EngineSettings, InstanceSettings
from millstream.service.functions_folder import load_functions
from millstream_server.bootstrap.boot import check_boot
from millstream_server.bootstrap.config import load_config
from millstream_server.bootstrap.startup import instance_settings, open_database

KAFKA = {"bootstrap.servers": "127.0.0.1:1"}
ENGINE = {
    "threads": ("millstream.duckdb.threads", "3", 3),
    "memory_limit": ("millstream.memory.max.bytes", "512MiB", "536870912B"),
    "history_memory_limit": ("millstream.history.memory.max.bytes", "256MiB", "268435456B"),
    "processing_threads": ("num.stream.threads", "3", 3),
    "function_threads": ("millstream.functions.threads", "3", 3),
    "max_batch_records": ("millstream.batch.max.records", "1000", 1_000),
    "decoded_bytes": ("millstream.decoded.max.bytes", "1MiB", 1 << 20),
    "linger_ms": ("millstream.linger.ms", "0", 0),
    "spark_master": ("spark.master", "local[1]", "local[1]"),
    "spark_options": ("spark.ui.enabled", "false", {"spark.ui.enabled": "false"}),
    "schema_registry": (
        *("ksql.schema.registry.url", "http://localhost:1"),
        {"url": "http://localhost:1"},
    ),
    "kafka_connect": (
        *("ksql.connect.url", "http://localhost:1"),
        ConnectSettings("http://localhost:1"),
    ),
    "push_buffer_bytes": ("millstream.push.buffer.max.bytes", "2MiB", 2 << 20),
    "processing_rows": ("ksql.logging.processing.rows.include", "true", True),
    "topic_settings": (
        *("millstream.topic.settings", "retention.ms=1, segment.bytes=2"),
        {"retention.ms": "1", "segment.bytes": "2"},
    ),
    "checkpoints_url": ("millstream.checkpoints.dir", "/checkpoints", "/checkpoints"),
    "checkpoint_interval_ms": ("millstream.checkpoints.interval.ms", "7", 7),
    "processing_retention_ms": ("millstream.processing.log.retention.ms", "7", 7),
    "snapshot_commands": ("millstream.snapshot.statements", "7", 7),
}
NOT_SET = {"commit_interval_ms", "command_topic", "internal_prefix"}
"""The first is the property commit.interval.ms; the others name what is on the log."""
INSTANCE = {
    "instance_id": ("millstream.instance.id", "one", "one"),
    "group_protocol": ("group.protocol", "consumer", "consumer"),
    "session_timeout_ms": ("session.timeout.ms", "6000", 6_000),
    "standby_replicas": ("num.standby.replicas", "2", 2),
    "acceptable_recovery_lag": ("acceptable.recovery.lag", "0", 0),
    "max_warmup_replicas": ("max.warmup.replicas", "4", 4),
    "probing_rebalance_interval_ms": ("probing.rebalance.interval.ms", "600000", 600_000),
}


def test_each_setting_of_the_library_has_one_of_the_server() -> None:
    assert {item.name for item in fields(EngineSettings)} == ENGINE.keys() | NOT_SET
    assert {item.name for item in fields(InstanceSettings)} == INSTANCE.keys() | {"listener"}


@pytest.mark.parametrize("prefix", ["", "ksql.streams."])
@pytest.mark.parametrize("field", ENGINE)
def test_settings_reach_the_engine(field: str, prefix: str) -> None:
    name, text, value = ENGINE[field]
    given = name if name.startswith(("millstream.", "spark.", "ksql.")) else prefix + name
    with open_database(load_config(flags={given: text})) as database:
        assert getattr(database.engine.settings, field) == value


def test_processing_threads_have_two_names() -> None:
    with open_database(load_config(flags={"processing.threads": "5"})) as database:
        assert database.engine.settings.processing_threads == 5


@pytest.mark.parametrize("prefix", ["", "ksql.streams."])
@pytest.mark.parametrize("field", INSTANCE)
def test_settings_reach_the_instance(field: str, prefix: str) -> None:
    name, text, value = INSTANCE[field]
    given = name if name.startswith("millstream.") else prefix + name
    config = load_config(flags={given: text, **KAFKA})
    check_boot(config)
    assert getattr(instance_settings(config), field) == value
    with pytest.raises(StatementError, match=f"{name} is for instances"):
        check_boot(load_config(flags={given: text}))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("num.standby.replicas", "-1"),
        ("num.standby.replicas", "x"),
        ("num.standby.replicas", "101"),
        ("session.timeout.ms", "0"),
        ("ksql.udfs.enabled", "maybe"),
    ],
)
def test_values_that_are_none(name: str, text: str) -> None:
    with pytest.raises(StatementError, match=f"The setting {name} cannot be"):
        load_config(flags={name: text})


def test_protocols_of_groups() -> None:
    with pytest.raises(StatementError, match="classic or consumer"):
        check_boot(load_config(flags={"group.protocol": "streams", **KAFKA}))


MODULE = """
from __future__ import annotations
from dataclasses import dataclass
import millstream

@dataclass
class Factor:
    by: int = 2

@millstream.udf("DOUBLED", "INTEGER -> INTEGER")
def doubled(value):
    return value * Factor().by

same = doubled
TWICE = 1
"""


def folder_with(tmp_path: Path, **modules: str) -> Path:
    folder = tmp_path / "ext"
    folder.mkdir(mode=0o755)
    for name, text in modules.items():
        file = folder / f"{name}.py"
        file.write_text(text)
        file.chmod(0o644)
    return folder


def test_functions_come_from_a_folder(tmp_path: Path) -> None:
    more = MODULE.replace("DOUBLED", "TWOFOLD")
    folder = folder_with(tmp_path, json=MODULE, more=more)
    flags = {"ksql.extension.dir": str(folder)}
    with open_database(load_config(flags=flags)) as database:
        assert {"DOUBLED", "TWOFOLD"} <= database.engine.functions.named().keys()
        database.execute(
            "CREATE STREAM s (id INT KEY, v INT)"
            " WITH (kafka_topic='s', value_format='JSON', partitions=1);"
            "CREATE TABLE t AS SELECT id, SUM(DOUBLED(v)) AS n FROM s GROUP BY id;"
            "INSERT INTO s VALUES (1, 20); INSERT INTO s VALUES (1, 1);"
        )
        database.wait()
        rows = database.execute("SELECT TWOFOLD(n) AS n FROM t WHERE id = 1;")
        assert [tuple(row) for row in rows] == [(84,)]
    off = {**flags, "ksql.udfs.enabled": "false"}
    with open_database(load_config(flags=off)) as database:
        assert "DOUBLED" not in database.engine.functions.named()


PROCESSOR = """
import millstream

@millstream.processor
class Numbered(millstream.Processor):
    output = "id INT KEY, n BIGINT"

    def init(self, context):
        self.context = context
        self.last = context.store("last", millstream.KeyValueStore("INT", "BIGINT"))

    def process(self, record):
        self.last.put(record.key, self.last.get(record.key, 0) + 1)
        self.context.forward(record.key, {"N": self.last.get(record.key)})
"""


def test_processors_come_from_a_folder(tmp_path: Path) -> None:
    flags = {"ksql.extension.dir": str(folder_with(tmp_path, numbered=PROCESSOR))}
    with open_database(load_config(flags=flags)) as database:
        database.execute(
            "CREATE STREAM s (id INT KEY, v INT)"
            " WITH (kafka_topic='s', value_format='JSON', partitions=1);"
            "CREATE STREAM t AS SELECT * FROM PROCESS(s, 'Numbered');"
            "INSERT INTO s VALUES (1, 20); INSERT INTO s VALUES (1, 1);"
        )
        database.wait()
        rows = database.execute("SELECT id, n FROM t;")
        assert [tuple(row) for row in rows] == [(1, 1), (1, 2)]


def test_no_folder_no_functions(tmp_path: Path) -> None:
    assert load_functions("", "--functions") == ()
    assert load_functions(str(folder_with(tmp_path)), "--functions") == ()
    with pytest.raises(StatementError, match="is no folder"):
        load_functions(str(tmp_path / "nowhere"), "--functions")


@pytest.mark.parametrize(
    "text",
    [
        "def broken(:\n",
        "raise ValueError('canary')",
        "import nowhere_to_be_found",
        "import millstream\nmillstream.udf('X', 'NOTHING -> INTEGER', lambda x: x)",
    ],
)
def test_a_module_that_cannot_be_loaded_is_named(tmp_path: Path, text: str) -> None:
    folder = folder_with(tmp_path, broken=text)
    with pytest.raises(StatementError, match=r"Cannot load functions from '.*broken\.py'"):
        load_functions(str(folder), "--functions")


def test_code_that_others_may_change_is_not_run(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, mine="raise AssertionError")
    for path in (folder / "mine.py", folder):
        mode = path.stat().st_mode
        path.chmod(0o777)
        with pytest.raises(StatementError, match="others than its owner may change it"):
            load_functions(str(folder), "--functions")
        path.chmod(mode)


def test_modules_hide_no_others(tmp_path: Path) -> None:
    load_functions(str(folder_with(tmp_path, json=MODULE)), "--functions")
    assert not hasattr(sys.modules["json"], "doubled")
    assert hasattr(sys.modules["millstream_extensions.json"], "doubled")

"""What a server is started with: the file, the environment, flags."""

from __future__ import annotations

from pathlib import Path

import pytest

from millstream.model.errors import StatementError, UnavailableError
from millstream_server.listening import bind
from millstream_server.startup import (
    DEFAULT_LISTENER,
    StartSettings,
    from_environment,
    load,
    open_database,
    read_properties,
)

FILE = r"""
# what we sell
ksql.service.id = shop_
! another comment
listeners=http://127.0.0.1:0,\
          http://127.0.0.2:0
ksql.streams.auto.offset.reset:earliest
security.protocol=SSL
nobody.knows.this=1
"""


def test_a_file_is_read() -> None:
    found = read_properties(FILE)
    assert found["ksql.service.id"] == "shop_"
    assert found["listeners"] == "http://127.0.0.1:0,http://127.0.0.2:0"
    assert found["ksql.streams.auto.offset.reset"] == "earliest"


def test_flags_beat_the_environment_and_that_the_file(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text(FILE)
    environment = {"KSQL_KSQL_SERVICE_ID": "env_", "KSQL_BOOTSTRAP_SERVERS": "a:1", "HOME": "/"}
    settings = load(str(path), environment, {"bootstrap.servers": "b:2"})
    assert settings == StartSettings(
        service_id="env_",
        listeners=("http://127.0.0.1:0", "http://127.0.0.2:0"),
        kafka="b:2",
        properties={"auto.offset.reset": "earliest"},
        client={"security.protocol": "SSL"},
        unknown=("nobody.knows.this",),
    )


def test_names_in_the_environment() -> None:
    assert from_environment({"KSQL_A_B": "1", "KSQL_A___B_C": "2", "KSQL_OPTS": "x"}) == {
        "a.b": "1",
        "a_b.c": "2",
    }


def test_without_anything_it_listens_to_this_machine_alone() -> None:
    settings = load(None, {}, {})
    assert settings.listeners == (DEFAULT_LISTENER,)
    assert "127.0.0.1" in DEFAULT_LISTENER


def test_what_cannot_be_started_with(tmp_path: Path) -> None:
    with pytest.raises(StatementError, match="Cannot read"):
        load(str(tmp_path / "nothing"), {}, {})
    with pytest.raises(StatementError, match="Invalid value"):
        load(None, {}, {"auto.offset.reset": "never"})


@pytest.mark.parametrize("url", ["", "127.0.0.1:80", "ftp://x:1", "http://:1", "http://x:y"])
def test_what_is_no_listener(url: str) -> None:
    with pytest.raises(StatementError, match="is no listener"):
        bind(url)


def test_an_address_that_is_taken() -> None:
    listener = bind("http://127.0.0.1:0")
    try:
        with pytest.raises(UnavailableError, match="Cannot listen"):
            bind(listener.url)
    finally:
        listener.bound.close()


def test_the_files_lie_in_the_directory(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    with open_database(StartSettings(directory=str(folder))) as database:
        database.execute("CREATE TYPE t AS INT;")
    assert (folder / "millstream.db").exists()
    with open_database(StartSettings(directory=str(folder))) as database:
        assert "T" in database.engine.catalog.types

"""Backups in an object store: moto's server speaks S3."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from moto.server import ThreadedMotoServer
from pyarrow import fs

import millstream
from millstream.backup.check import check_backup
from millstream.backup.restore import restore
from millstream.model.errors import UnavailableError


@pytest.fixture(scope="module")
def server() -> Iterator[ThreadedMotoServer]:
    found = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    found.start()
    yield found
    found.stop()


@pytest.fixture
def query(server: ThreadedMotoServer, monkeypatch: pytest.MonkeyPatch) -> str:
    """What a URL has at its end, to reach the server."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ann")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    host, port = server.get_host_and_port()
    found = f"?scheme=http&endpoint_override={host}:{port}&region=us-east-1"
    system, _ = fs.FileSystem.from_uri(f"s3://x/y{found}&allow_bucket_creation=true")
    system.create_dir("shop")
    return found


def test_a_database_comes_back_from_a_bucket(tmp_path: Path, query: str) -> None:
    url = f"s3://shop/nightly{query}"
    with millstream.connect(tmp_path / "a.db") as db:
        db.execute("CREATE STREAM s (k STRING KEY, v INT) WITH (KAFKA_TOPIC='s', PARTITIONS=1, "
                   "FORMAT='JSON'); INSERT INTO s VALUES ('a', 1);")  # fmt: skip
        first = db.backup(url)
        db.execute("INSERT INTO s VALUES ('b', 2);")
        second = db.backup(url, keep=2)
        assert 0 < second.new_files < first.new_files
        db.backup(url, keep=1)
    assert check_backup(url).well
    restore(url, tmp_path / "r.db")
    with millstream.connect(tmp_path / "r.db") as db:
        assert sorted(db.execute("SELECT k, v FROM s;")) == [("a", 1), ("b", 2)]


def test_a_bucket_that_is_not_there(tmp_path: Path, query: str) -> None:
    with (
        millstream.connect(tmp_path / "a.db") as db,
        pytest.raises(UnavailableError, match="the backups at 's3://nowhere") as refused,
    ):
        db.backup(f"s3://nowhere/x{query}")
    assert refused.value.code == "E-BACKUP-PLACE"

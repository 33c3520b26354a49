"""Clients that do not follow the protocol, ask for too much, or leave: only they are harmed."""

from __future__ import annotations

import contextlib
import secrets
import socket
import struct
from collections.abc import Iterator

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.model.clock import now_ms
from millstream.model.settings import EngineSettings
from millstream.service.execution import open_engine
from millstream_server.http.admission import ConnectionLimits
from millstream_server.http.transport import Transport
from millstream_server.postgres import session, session_commands, statements
from millstream_server.postgres.connections import PostgresLimits
from millstream_server.postgres.messages import (
    CANCEL_REQUEST,
    SSL_REQUEST,
    ProtocolError,
    read_first,
    read_message,
)
from tests.draws import draws
from tests.patience import until
from tests.postgres.conftest import SETUP, Shop
from tests.postgres.wire import STARTUP, Wire, fields, first, message
from tests.served import served


@given(st.binary(max_size=1), st.binary(max_size=60))
def test_a_body_is_a_message_or_none(letter: bytes, body: bytes) -> None:
    for read in (lambda: read_message(letter, body), lambda: read_first(body)):
        try:
            assert read() is not None
        except ProtocolError as error:
            assert str(error)


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\nhost: x\r\n\r\n",
        struct.pack("!i", 3),
        struct.pack("!i", -1) + b"x",
        struct.pack("!ii", 10_005, 3 << 16),
        first(2 << 16, STARTUP),
        first(3 << 16, b"user\0bob"),
        first(3 << 16, b"\0"),
        first(3 << 16, b"user\0\xff\xfe\0\0"),
        first(3 << 16, b"user\0bob\0replication\0database\0\0"),
        first(SSL_REQUEST) * 4,
        first(3 << 16, STARTUP) + b"Q" + struct.pack("!i", 3),
        first(3 << 16, STARTUP) + b"Q" + struct.pack("!i", (2 << 20) + 4),
        first(3 << 16, STARTUP) + message(b"Q", b"SELECT 1"),
        first(3 << 16, STARTUP) + message(b"!", b""),
        first(3 << 16, STARTUP) + message(b"p", b"secret\0"),
        first(3 << 16, STARTUP) + message(b"B", b"\0\0\x7f\xff"),
        first(3 << 16, STARTUP) + message(b"P", b"a\0SELECT 1\0\xff\xff"),
    ],
)
def test_what_is_no_message_ends_the_connection(shop: Shop, sent: bytes) -> None:
    with Wire(shop.door.postgres, started=False) as wire:
        wire.send(sent)
        wire.socket.shutdown(socket.SHUT_WR) if sent.startswith(b"GET") else None
        while found := wire.socket.recv(1 << 16):
            assert found
    with shop.connect() as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


@settings(max_examples=draws(60), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(b"QPBDCESHXdcfFp!"), st.binary(max_size=30)), max_size=6))
def test_random_messages_harm_nobody_else(shop: Shop, sent: list[tuple[int, bytes]]) -> None:
    with Wire(shop.door.postgres) as wire:
        for letter, body in sent:
            try:
                wire.send(message(bytes([letter]), body))
            except ConnectionError:
                break
        with contextlib.suppress(OSError):
            wire.socket.shutdown(socket.SHUT_WR)
        while wire.read() is not None:
            pass
    with shop.connect() as connection:
        assert connection.execute("SELECT name FROM known WHERE id = 1").fetchone() == ("Ann",)


def test_after_an_error_messages_are_skipped_up_to_sync(shop: Shop) -> None:
    parse = message(b"P", b"\0SELECT nope FROM known\0\0\0") + message(b"B", b"\0" * 8)
    run = message(b"E", b"\0\0\0\0\0")
    with Wire(shop.door.postgres) as wire:
        wire.send(parse + run + run + parse + message(b"S") + message(b"S"))
        letters = [letter for letter, _ in [*wire.until(b"Z"), *wire.until(b"Z")]]
        assert letters == [b"1", b"2", b"E", b"Z", b"Z"]


def test_a_client_that_vanishes_ends_its_query(shop: Shop) -> None:
    wire = Wire(shop.door.postgres)
    wire.send(message(b"Q", b"SELECT id FROM orders EMIT CHANGES\0"))
    assert wire.until(b"D")[-1][0] == b"D"
    wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wire.socket.close()
    until(lambda: not shop.engine.push_queries.streams)


def test_only_the_key_of_a_session_cancels_it(shop: Shop) -> None:
    with Wire(shop.door.postgres) as wire:
        wire.send(message(b"Q", b"SELECT id FROM orders EMIT CHANGES\0"))
        wire.until(b"D")
        guessed = wire.key[:4] + bytes([wire.key[4] ^ 1]) + wire.key[5:]
        for key in (guessed, secrets.token_bytes(8)):
            with Wire(shop.door.postgres, started=False) as other:
                other.send(first(CANCEL_REQUEST, key))
                assert other.read() is None
        assert shop.engine.push_queries.streams
        with Wire(shop.door.postgres, started=False) as other:
            other.send(first(CANCEL_REQUEST, wire.key))
            assert other.read() is None
        assert fields(wire.until(b"E")[-1][1])["C"] == "57014"
        assert wire.until(b"Z")[-1] == (b"Z", b"I")
        assert wire.asked("SELECT 1")[-2][0] == b"C"


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT * FROM pg_class, read_csv('/etc/passwd')", "0A000"),
        ("SELECT * FROM read_text('/etc/passwd'), pg_class", "0A000"),
        ("SELECT getenv('HOME') FROM pg_class", "0A000"),
        ("SELECT pg_read_file('/etc/passwd')", "0A000"),
        ("SELECT lo_import('/etc/passwd')", "0A000"),
        ("SELECT * FROM pg_catalog.duckdb_settings", "42P01"),
        ("SELECT * FROM information_schema.nope", "42P01"),
        ("SELECT * FROM pg_class, known", "0A000"),
        ("SELECT * FROM duckdb_secrets(), pg_class", "0A000"),
        ("SELECT * FROM pg_class; ATTACH 'x.db'", "42000"),
        ("WITH x AS (DELETE FROM pg_class RETURNING *) SELECT * FROM x", "0A000"),
        ("SELECT query_table('sqlite_master') FROM pg_class", "0A000"),
        ("SELECT 1 FROM '/etc/passwd', pg_class", "0A000"),
        ("SELECT repeat('x', 1000000000)", "0A000"),
        ("SELECT array_agg(a.oid) FROM pg_type a, pg_type b, pg_type c, pg_type d", "0A000"),
        ("SELECT " + "(" * 3000 + "1" + ")" * 3000 + " FROM pg_class", "42601"),
    ],
)  # fmt: skip
def test_queries_about_the_catalog_reach_nothing_else(
    shop: Shop, sql: str, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statements, "_SECONDS_MAX", 1.0)
    with Wire(shop.door.postgres) as wire:
        found = [fields(body) for letter, body in wire.asked(sql) if letter == b"E"]
        assert found, "it was answered"
        assert found[-1]["C"] in (code, "57014"), found
        assert "root:" not in str(found)
        assert wire.asked("SELECT 1")[-2][0] == b"C"


def test_a_query_about_the_catalog_ends_in_time(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statements, "_SECONDS_MAX", 0.05)
    with shop.connect() as connection:
        with pytest.raises(psycopg.errors.QueryCanceled):
            connection.execute("SELECT count(*) FROM generate_series(1, 1000000000000) x")
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_what_a_session_holds_is_bounded(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "NAMED_MAX", 3)
    monkeypatch.setattr(session_commands, "CURSORS_MAX", 2)
    with Wire(shop.door.postgres) as wire:
        for number in range(4):
            wire.send(message(b"P", b"s%d\0SELECT 1\0\0\0" % number))
        wire.send(message(b"S"))
        letters = [letter for letter, _ in wire.until(b"Z")]
        assert letters == [b"1", b"1", b"1", b"E", b"Z"]
        for number in range(3):
            found = wire.asked(f"DECLARE c{number} CURSOR FOR SELECT id FROM orders EMIT CHANGES")
        assert fields(found[0][1])["C"] == "53400"
        assert len(shop.engine.push_queries.streams) == 2
    until(lambda: not shop.engine.push_queries.streams)


def test_what_a_session_holds_is_bounded_in_bytes(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "HELD_BYTES_MAX", 100)
    with Wire(shop.door.postgres) as wire:
        wire.send(message(b"P", b"a\0SELECT id FROM known WHERE name = $1\0\0\0"))
        value = b"\0a\0\0\0\0\x01" + struct.pack("!i", 80) + b"x" * 80 + b"\0\0"
        wire.send(message(b"B", value) + message(b"S"))
        assert [letter for letter, _ in wire.until(b"Z")] == [b"1", b"E", b"Z"]
        wire.send(message(b"P", b"b\0SELECT '" + b"x" * 90 + b"'\0\0\0") + message(b"S"))
        assert fields(wire.until(b"Z")[0][1])["C"] == "53400"
        assert wire.asked("DEALLOCATE ALL")[0][0] == b"C"
        wire.send(message(b"P", b"b\0SELECT '" + b"x" * 80 + b"'\0\0\0") + message(b"S"))
        assert wire.until(b"Z")[0][0] == b"1"


def test_more_push_queries_than_allowed_are_refused(shop: Shop) -> None:
    wires = [Wire(shop.door.postgres) for _ in range(21)]
    for wire in wires:
        wire.send(message(b"Q", b"SELECT id FROM orders EMIT CHANGES\0"))
        letters = [letter for letter, _ in wire.until(b"T")] if wire is not wires[-1] else []
        assert wire is wires[-1] or letters[-1] == b"T"
    assert wires[-1].error()["C"] == "53400"
    for wire in wires:
        wire.socket.close()
    until(lambda: not shop.engine.push_queries.streams)


@pytest.fixture
def narrow() -> Iterator[Shop]:
    """A server with few connections, short deadlines, and little patience."""
    engine = open_engine(":memory:", EngineSettings(threads=1), now_ms)
    engine.start()
    limits = PostgresLimits(start_s=0.2, stall_s=0.2)
    transport = Transport(ConnectionLimits(total=4, per_address=3))
    with served(engine, postgres=limits, transport=transport) as door:
        found = Shop(engine, door)
        found.feed(SETUP)
        yield found
    engine.close()


def test_a_client_that_says_nothing_is_closed(narrow: Shop) -> None:
    for sent in (b"", b"\0\0", first(SSL_REQUEST), first(3 << 16, STARTUP)[:20]):
        with Wire(narrow.door.postgres, started=False) as wire:
            wire.send(sent)
            while wire.read() is not None:
                pass


def test_silent_clients_do_not_keep_others_out(narrow: Shop) -> None:
    silent = [Wire(narrow.door.postgres, started=False) for _ in range(6)]
    with narrow.connect() as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    for wire in silent:
        wire.socket.close()


def test_one_address_has_only_so_many_sessions(narrow: Shop) -> None:
    held = [Wire(narrow.door.postgres) for _ in range(3)]
    with Wire(narrow.door.postgres, started=False) as wire:
        assert wire.read() is None
    for each in held:
        assert each.asked("SELECT 1")[-1] == (b"Z", b"I")
        each.socket.close()


def test_a_client_that_does_not_read_is_closed(narrow: Shop) -> None:
    narrow.feed("".join(f"INSERT INTO orders VALUES ({n}, {n}, 1.0);" for n in range(300)))
    ongoing = narrow.door.server.ongoing
    with Wire(narrow.door.postgres) as wire:
        wire.send(message(b"Q", b"SELECT a.*, b.* FROM orders a JOIN orders b ON TRUE\0"))
        until(lambda: ongoing.count > 0)
        until(lambda: ongoing.count == 0)
        assert [letter for letter, _ in wire.until(b"C")][-1] != b"C"
    with narrow.connect() as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)

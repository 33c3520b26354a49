"""Who may come in by PostgreSQL's protocol, and what they may do: as by HTTP."""

from __future__ import annotations

import base64
import hashlib
import hmac
import ssl
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from millstream.model.errors import StatementError
from millstream_server.auth import scram
from millstream_server.auth.passwords import hashed, hashed_for_scram, read_users
from millstream_server.auth.scram import Challenge, ScramError, Verifier, challenge, read_verifier
from millstream_server.bootstrap.reloading import Reloading
from tests.patience import until
from tests.postgres.wire import STARTUP, Wire, first, message
from tests.server.guarded import PEOPLE, Guarded, guarded
from tests.server.test_auth import CHEAP

ITERATIONS = 4_096


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with guarded(tmp_path_factory.mktemp("secured")) as found:
        yield found


@pytest.fixture
def proving(tmp_path: Path) -> Iterator[Guarded]:
    """The users have verifiers of SCRAM."""
    with guarded(tmp_path, **_scram_users(tmp_path)) as found:
        yield found


def _scram_users(folder: Path) -> dict[str, str]:
    users = folder / "verifiers"
    users.write_text(
        "".join(
            f"{name}: {scram.verifier_of(name, ITERATIONS).text()}, {role}\n"
            for name, role in PEOPLE.items()
        )
    )
    users.chmod(0o600)
    return {"authentication.users.file": str(users)}


def connected(door: Guarded, user: str, password: str, **more: Any) -> psycopg.Connection:
    """A connection, whose certificate is verified."""
    return psycopg.connect(
        host="localhost",
        hostaddr="127.0.0.1",
        port=door.door.postgres,
        user=user,
        password=password,
        dbname="shop",
        sslmode="verify-ca",
        sslrootcert=str(door.ours.file),
        autocommit=True,
        **more,
    )


@pytest.mark.parametrize("kind", ["door", "proving"])
def test_users_do_what_their_rules_allow(kind: str, request: pytest.FixtureRequest) -> None:
    found = request.getfixturevalue(kind)
    with connected(found, "reader", "reader") as reader:
        reader.execute("SET 'auto.offset.reset' = 'earliest'")
        rows = reader.cursor().stream("SELECT id, item FROM orders EMIT CHANGES LIMIT 1")
        assert list(rows) == [(1, "tea")]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            reader.execute("INSERT INTO orders VALUES (2, 'x')")
        with (
            pytest.raises(psycopg.errors.InsufficientPrivilege),
            reader.cursor().copy("COPY orders FROM STDIN") as copy,
        ):
            copy.write("3\tcoffee\n")
        for sql in ("SELECT * FROM paid", "SELECT * FROM pay EMIT CHANGES", "DROP STREAM orders"):
            with pytest.raises(psycopg.Error) as refused:
                reader.execute(sql)
            assert refused.value.sqlstate in ("42501", "42000")
    with connected(found, "admin", "admin") as admin:
        assert admin.execute("SELECT 1").fetchone() == (1,)


def test_the_catalog_shows_what_a_user_may_see(door: Guarded) -> None:
    listing = "SELECT relname FROM pg_class WHERE relkind IN ('r', 'v') ORDER BY 1"
    with connected(door, "reader", "reader") as reader:
        assert reader.execute(listing).fetchall() == [("orders",)]
        assert reader.execute("SELECT to_regclass('paid')").fetchall() == [(None,)]
        found = reader.execute("SELECT column_name FROM information_schema.columns").fetchall()
        assert ("amount",) not in found
    with connected(door, "admin", "admin") as admin:
        names = {name for (name,) in admin.execute(listing).fetchall()}
        assert {"orders", "pay", "paid"} <= names


@pytest.mark.parametrize("kind", ["door", "proving"])
@pytest.mark.parametrize(
    ("user", "password"),
    [("admin", "guess"), ("nobody", "nobody"), ("admin", ""), ("", "admin"), ("Admin", "admin")],
)
def test_who_is_not_known_is_refused_in_the_same_words(
    kind: str, user: str, password: str, request: pytest.FixtureRequest
) -> None:
    found = request.getfixturevalue(kind)
    with pytest.raises(psycopg.OperationalError) as refused:
        connected(found, user, password)
    told = str(refused.value)
    assert "Authentication is missing or failed" in told or "no password" in told or not user


def test_guesses_are_slowed_down(proving: Guarded) -> None:
    said = []
    for _ in range(12):
        with pytest.raises(psycopg.OperationalError) as refused:
            connected(proving, "admin", "guess")
        said.append(str(refused.value))
    assert "Too many failed attempts" in said[-1]
    with pytest.raises(psycopg.OperationalError, match="Too many failed attempts"):
        connected(proving, "admin", "admin")


def test_a_certificate_is_enough(door: Guarded, tmp_path: Path) -> None:
    shown = door.ours.signed("carol", tmp_path)
    text = Path(shown).read_text()
    key, certificate = tmp_path / "key", tmp_path / "certificate"
    begins = text.index("-----BEGIN CERT")
    ends = text.index("-----END CERT")
    certificate.write_text(text[begins : text.index("\n", ends) + 1])
    key.write_text(text)
    key.chmod(0o600)
    more = {"sslcert": str(certificate), "sslkey": str(key)}
    with connected(door, "carol", "none", **more) as carol:
        assert carol.execute("SELECT relname FROM pg_class WHERE relkind = 'v'").fetchall() == [
            ("orders",)
        ]


def test_no_connection_without_encryption(door: Guarded) -> None:
    with Wire(door.door.postgres, started=False) as wire:
        wire.send(first(3 << 16, STARTUP))
        assert wire.error()["C"] == "28000"
        assert wire.read() is None


def test_data_before_the_encryption_counts_for_nothing(door: Guarded) -> None:
    with Wire(door.door.postgres, started=False) as wire:
        wire.send(first(80877103) + first(3 << 16, STARTUP) + message(b"Q", b"DROP STREAM paid\0"))
        context = ssl.create_default_context(cafile=str(door.ours.file))
        context.check_hostname = False
        assert wire.socket.recv(1) != b"S"
    assert door.engine.catalog.find("PAID") is not None


def test_http_accepts_the_same_verifiers(proving: Guarded) -> None:
    assert proving.clients["admin"].get("/clusterStatus").status_code == 200
    assert proving.clients["wrong password"].get("/clusterStatus").status_code == 401


def test_a_session_ends_with_its_user(tmp_path: Path) -> None:
    flags = _scram_users(tmp_path)
    with guarded(tmp_path, **flags) as door:
        guard: Any = door.door.server.guard
        with connected(door, "reader", "reader") as reader:
            assert reader.execute("SELECT 1").fetchone() == (1,)
            reader.execute("SET 'auto.offset.reset' = 'earliest'")
            rows = reader.cursor().stream("SELECT id FROM orders EMIT CHANGES")
            assert next(rows) == (1,)
            with connected(door, "reader", "reader") as other:
                Path(flags["authentication.users.file"]).write_text("")
                _reload(door, guard)
                with pytest.raises(psycopg.errors.InvalidPassword):
                    other.execute("SELECT 1")
                with pytest.raises(psycopg.errors.InvalidPassword):
                    other.execute("SELECT id FROM orders EMIT CHANGES")
            with pytest.raises(psycopg.errors.InvalidPassword):
                next(rows)
        until(lambda: not door.engine.push_queries.streams)


def test_the_catalog_follows_the_rules(tmp_path: Path) -> None:
    listing = "SELECT relname FROM pg_class WHERE relkind IN ('r', 'v') ORDER BY 1"
    with guarded(tmp_path) as door, connected(door, "reader", "reader") as reader:
        assert reader.execute(listing).fetchall() == [("orders",)]
        rules = Path(door.config.text("authorization.rules.file"))
        rules.write_text("allow role:reader READ topic:*\n")
        _reload(door, door.door.server.guard)
        assert ("pay",) in reader.execute(listing).fetchall()
        rules.write_text("")
        _reload(door, door.door.server.guard)
        assert reader.execute(listing).fetchall() == []
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            reader.execute("SELECT id FROM orders WHERE id = 1")


def _reload(door: Guarded, guard: Any) -> None:
    recheck = partial(door.door.server.ongoing.recheck, guard)
    Reloading(door.config, guard, guard.audit, recheck=recheck).reload()


# --- SCRAM


def _client(password: str, first_bare: str, answer: str, header: str = "n,,") -> tuple[str, bytes]:
    """The last message of a client, and the signature that it expects (RFC 5802, 3)."""
    parts = dict(part.split("=", 1) for part in answer.split(","))
    salted = hashlib.pbkdf2_hmac(
        "sha256", password.encode(), base64.b64decode(parts["s"]), int(parts["i"])
    )
    key = hmac.digest(salted, b"Client Key", "sha256")
    bare = f"c={base64.b64encode(header.encode()).decode()},r={parts['r']}"
    text = f"{first_bare},{answer},{bare}".encode()
    signature = hmac.digest(hashlib.sha256(key).digest(), text, "sha256")
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()
    expected = hmac.digest(hmac.digest(salted, b"Server Key", "sha256"), text, "sha256")
    return f"{bare},p={proof}", expected


def test_the_example_of_the_standard() -> None:
    """RFC 7677, section 3."""
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", salt, 4096)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    verifier = Verifier(4096, salt, stored, hmac.digest(salted, b"Server Key", "sha256"))
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    first = f"r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    asked = Challenge(verifier, first, nonce, "n=user,r=rOprNGfwEbeRWgbNEkqO", "n,,")
    proof = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    assert asked.proved(f"c=biws,r={nonce},p={proof}") == (
        "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    )


@pytest.mark.parametrize("password", ["pencil", "p w", "pässwörd", "\u2168", "a\u00adb", "日本"])
def test_a_right_password_is_proved(password: str) -> None:
    verifier = read_verifier(scram.verifier_of(password, 4096).text())
    asked = challenge("n,,n=,r=abc", verifier)
    last, expected = _client(scram.prepared(password), "n=,r=abc", asked.first)
    assert asked.proved(last) == f"v={base64.b64encode(expected).decode()}"
    assert verifier.fits(password)
    assert not verifier.fits(password + "x")
    wrong, _ = _client("other", "n=,r=abc", asked.first)
    assert asked.proved(wrong) is None


@pytest.mark.parametrize(
    "sent",
    ["", "n,,", "p=tls-server-end-point,,n=,r=x", "n,,n=a", "n,,r=x", "x,,n=a,r=x", "n,,n=a,r=x y"],
)
def test_a_first_message_that_is_none(sent: str) -> None:
    with pytest.raises(ScramError):
        challenge(sent, scram.verifier_of("x", 4096))


@pytest.mark.parametrize(
    "sent",
    ["", "c=biws", "c=biws,r=abc,p=AAAA", "c=eSws,r={nonce},p=AAAA", "c=biws,r={nonce},p=A", "c=!"],
)
def test_a_last_message_that_is_none(sent: str) -> None:
    asked = challenge("n,,n=,r=abc", scram.verifier_of("x", 4096))
    with pytest.raises(ScramError):
        asked.proved(sent.replace("{nonce}", asked.nonce))


@pytest.mark.parametrize("proof", ["", "AAAA", "A" * 44])
def test_a_proof_of_another_length_is_wrong(proof: str) -> None:
    asked = challenge("n,,n=,r=abc", scram.verifier_of("x", 4096))
    if proof:
        assert asked.proved(f"c=biws,r={asked.nonce},p={proof}") is None


@pytest.mark.parametrize(
    "text",
    [
        "SCRAM-SHA-256$1000:c2FsdHNhbHQ=$x:y",
        "SCRAM-SHA-256$4096:AA==$AAAA:AAAA",
        "SCRAM-SHA-256$9999999:c2FsdHNhbHQ=$AAAA:AAAA",
        "SCRAM-SHA-1$4096:c2FsdHNhbHQ=$AAAA:AAAA",
        "SCRAM-SHA-256$4096:!!!!$AAAA:AAAA",
    ],
)
def test_what_is_no_verifier_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_verifier(text)
    with pytest.raises(StatementError, match="the hash is none"):
        read_users(f"alice: {text}\n")


def test_a_file_has_hashes_of_one_kind() -> None:
    mixed = f"a: {hashed('a', CHEAP).text()}\nb: {hashed_for_scram('b').text()}\n"
    with pytest.raises(StatementError, match="all hashes are of scrypt, or all are"):
        read_users(mixed)


def test_an_unknown_user_has_the_same_salt_each_time() -> None:
    users = read_users(f"alice: {scram.verifier_of('a', 4096).text()}\n")
    unknown = [users.verifier("nobody") for _ in range(2)]
    assert unknown[0].salt == unknown[1].salt != users.verifier("somebody").salt
    assert unknown[0].iterations == users.verifier("alice").iterations
    assert users.having("nobody", unknown[0]) is None
    assert isinstance(users.verifier("alice"), Verifier)

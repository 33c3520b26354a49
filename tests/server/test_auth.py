"""Recognising principals: passwords, tokens, certificates, and failed attempts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from millstream.model.errors import StatementError, UnavailableError
from millstream_server.auth import auth, passwords
from millstream_server.auth.auth import Authenticator, Rules
from millstream_server.auth.certificates import read_subjects, subject_of
from millstream_server.auth.jwks import FRESH_S, Keys, KeySet, open_keys, read_keys
from millstream_server.auth.passwords import ScryptHash, Users, hashed, read_users
from millstream_server.auth.principal import ANONYMOUS, Principal, Refusal
from millstream_server.auth.tokens import TokenRefusedError, Tokens
from millstream_server.bootstrap.config import load_config
from millstream_server.bootstrap.wiring import authenticator
from tests.server.forgeries import forged
from tests.server.keys import (
    AUDIENCE,
    ISSUER,
    NOW,
    SECRET,
    Clock,
    basic,
    bearer,
    claims,
    ec_key,
    jwks,
    published,
    rsa_key,
    signed,
)

CHEAP = (14, 8, 1)
FORGED = dict(forged())


def keys(clock: Clock) -> KeySet:
    return KeySet(lambda: read_keys(json.dumps(jwks()), {}, public=False), clock)


def tokens(clock: Clock) -> Tokens:
    return Tokens(keys(clock), ISSUER, AUDIENCE, clock)


def users() -> Users:
    text = f"alice: {hashed('wonder', CHEAP).text()}, reader\nbob: {hashed('b', CHEAP).text()}\n"
    return read_users(f"# people\n\n{text}")


# --- tokens


def test_there_are_enough_forgeries() -> None:
    assert len(FORGED) >= 60


@pytest.fixture(scope="module")
def accepting() -> Tokens:
    return tokens(Clock())


@pytest.mark.parametrize("name", FORGED)
def test_forged_tokens_are_refused(name: str, accepting: Tokens) -> None:
    with pytest.raises(TokenRefusedError):
        accepting.principal(FORGED[name])
    refusal = Authenticator(Rules(), Clock(), tokens=accepting).authenticate(bearer(FORGED[name]))
    assert isinstance(refusal, Refusal) and refusal.status == 401


@pytest.mark.parametrize(
    "token",
    [
        signed(claims()),
        signed(claims(), ec_key(), "ES256", kid="e"),
        signed(claims(), SECRET, "HS256", kid="h"),
        signed(claims(aud=["x", AUDIENCE])),
        signed(claims(exp=NOW - 59, nbf=NOW - 600)),
        signed(claims(nbf=NOW + 59)),
        signed(claims(roles="reader")),
        signed(claims(), typ="at+jwt"),
    ],
    ids=map(str, range(8)),
)
def test_good_tokens_are_accepted(token: str, accepting: Tokens) -> None:
    principal = accepting.principal(token)
    assert (principal.name, principal.roles) == ("alice", {"reader"})
    assert principal.until is not None and principal.until >= NOW


def test_the_last_good_keys_are_kept() -> None:
    clock, reads = Clock(), list[int]()
    good = read_keys(json.dumps(jwks()), {}, public=False)

    def read() -> Keys:
        reads.append(1)
        if len(reads) > 1:
            raise UnavailableError("gone")
        return good

    known = KeySet(read, clock)
    clock.now += FRESH_S + 1
    assert known.key("r") is good["r"]
    assert (len(reads), known.problem) == (2, "gone")
    for _ in range(100):
        assert known.key("nobody") is None
    assert len(reads) == 2, "unknown ids make nobody ask the place again and again"


def test_new_keys_are_found_soon() -> None:
    clock = Clock()
    document = {"keys": jwks()["keys"][:1]}
    known = KeySet(lambda: read_keys(json.dumps(document), {}, public=True), clock)
    document["keys"] = jwks()["keys"][:2]
    assert known.key("e") is not None


@pytest.mark.parametrize(
    "document",
    [
        "",
        "[]",
        '{"keys": []}',
        '{"keys": {}}',
        '{"keys": [1]}',
        "[" * 100_000,
        json.dumps({"keys": [{**published(rsa_key().public_key(), "RS256", "r")}]}),
        json.dumps({"keys": [published(rsa_key().public_key(), "RS256", "r", alg="HS256")]}),
        json.dumps({"keys": [published(rsa_key().public_key(), "RS256", "r", alg="none")]}),
        json.dumps({"keys": [published(rsa_key(), "RS256", "r", alg="RS256")]}),
        json.dumps({"keys": [published(rsa_key().public_key(), "RS256", "", alg="RS256")]}),
        json.dumps({"keys": [published(rsa_key().public_key(), "RS256", "r", alg="RS256")] * 2}),
        json.dumps({"keys": jwks()["keys"][:1] * 65}),
        json.dumps({"keys": [{"kty": "oct", "k": "c2hvcnQ", "kid": "h", "alg": "HS256"}]}),
    ],
    ids=map(str, range(14)),
)
def test_keys_that_are_refused(document: str) -> None:
    with pytest.raises(StatementError):
        read_keys(document, {}, public=False)


def test_a_published_secret_is_refused_and_a_pin_binds() -> None:
    with pytest.raises(StatementError, match="no secret"):
        read_keys(json.dumps(jwks()), {}, public=True)
    bare = json.dumps({"keys": [published(rsa_key().public_key(), "RS256", "r")]})
    assert read_keys(bare, {"r": "PS256"}, public=True)["r"].algorithm == "PS256"


@pytest.mark.parametrize("place", ["http://a/jwks", "file:///etc/passwd", "https://u:p@a/", "x://"])
def test_keys_come_by_https_or_from_a_file(place: str) -> None:
    with pytest.raises(StatementError, match="https only"):
        open_keys(place, {}, Clock())


# --- passwords


def test_passwords() -> None:
    door = Authenticator(Rules(), Clock(), users=users())
    assert door.authenticate(basic("alice", "wonder")) == Principal(
        "alice", frozenset({"reader"}), "basic"
    )
    for name, password in (("alice", "x"), ("alice", ""), ("", ""), ("carol", "wonder")):
        refusal = door.authenticate(basic(name, password), address="1")
        assert isinstance(refusal, Refusal) and refusal.status == 401
        assert "Basic" in refusal.headers["WWW-Authenticate"]
        assert name not in refusal.message or not name


def test_an_unknown_user_costs_what_a_known_one_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    costs: list[tuple[int, int, int]] = []
    derived = passwords._derived

    def counted(password: bytes, salt: bytes, cost: tuple[int, int, int]) -> bytes:
        costs.append(cost)
        return derived(password, salt, cost)

    known = users()
    monkeypatch.setattr(passwords, "_derived", counted)
    assert known.verified("alice", "wrong") is None
    assert known.verified("nobody", "wrong") is None
    assert costs == [CHEAP, CHEAP]


def test_a_thousand_guesses_cost_the_guesser_time(monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[str] = []

    def fits(self: ScryptHash, password: str) -> bool:
        tries.append(password)
        return password == "right"

    monkeypatch.setattr(ScryptHash, "fits", fits)
    clock = Clock()
    door = Authenticator(Rules(), clock, users=users())
    for number in range(1_000):
        clock.now += 0.1
        refusal = door.authenticate(basic("alice", f"p{number}"), address="6.6.6.6")
        assert isinstance(refusal, Refusal) and refusal.status in (401, 429)
    assert len(tries) <= 12
    refusal = door.authenticate(basic("alice", "right"), address="6.6.6.6")
    assert isinstance(refusal, Refusal) and int(refusal.headers["Retry-After"]) > 0
    assert isinstance(door.authenticate(basic("alice", "right"), address="1.1.1.1"), Principal)
    assert isinstance(door.authenticate(basic("alice", "right"), address="6.6.6.6"), Principal), (
        "who is known does not suffer"
    )
    clock.now += 2_000
    assert isinstance(door.authenticate(basic("alice", "right"), address="6.6.6.6"), Principal)


def test_many_names_from_one_address_are_slowed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ScryptHash, "fits", lambda *_: False)
    door = Authenticator(Rules(), Clock(), users=users())
    answers = [door.authenticate(basic(f"u{n}", "x"), address="6") for n in range(100)]
    assert sum(isinstance(a, Refusal) and a.status == 401 for a in answers) == 20


def test_a_right_password_is_hashed_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    door = Authenticator(Rules(), clock, users=users())
    first = door.authenticate(basic("bob", "b"))
    assert isinstance(first, Principal)
    monkeypatch.setattr(ScryptHash, "fits", lambda *_: False)
    assert door.authenticate(basic("bob", "b")) == first
    clock.now += auth.KNOWN_FOR_S
    assert isinstance(door.authenticate(basic("bob", "b")), Refusal)


@pytest.mark.parametrize(
    "text",
    [
        "alice",
        "alice: plain",
        "alice: scrypt:1:1:1:AAAA:AAAA",
        "alice: {SHA}2jmj7l5rSw0yVb/vlWAYkK/YBwk=",
        "alice: scrypt:30:8:1:AAAAAAAAAAAAAAAAAAAAAA:AAAA",
        "a: {0}\na: {0}",
        ": {0}",
    ],
)
def test_users_files_that_are_refused(text: str) -> None:
    line = hashed("canary", CHEAP).text()
    with pytest.raises(StatementError, match="Line") as caught:
        read_users(text.replace("{0}", line))
    assert line not in str(caught.value) and "plain" not in str(caught.value)


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"authorization", b"Basic")],
        [(b"authorization", b"Basic !!!")],
        [(b"authorization", b"Basic /////w==")],
        [(b"authorization", b"Digest username=alice")],
        [(b"authorization", b"Basic " + b"QQ" * 9_000)],
        basic("alice", "wonder") * 2,
        [(b"x-forwarded-user", b"alice")],
        [(b"proxy-authorization", basic("alice", "wonder")[0][1])],
    ],
)
def test_headers_that_say_nothing(headers: list[tuple[bytes, bytes]]) -> None:
    answer = Authenticator(Rules(), Clock(), users=users()).authenticate(headers)
    assert isinstance(answer, Refusal) and (answer.status, answer.error_code) == (401, 40100)


# --- certificates, roles, paths


def certificate(name: str) -> dict[str, object]:
    return {"subject": ((("commonName", name),), (("organizationName", "Acme"),))}


def test_subjects_of_certificates() -> None:
    subjects = read_subjects("CN=node 1,O=Acme: node1, instance\n")
    door = Authenticator(Rules(), Clock(), subjects=subjects)
    assert door.authenticate([], certificate("node 1")) == Principal(
        "node1", frozenset({"instance"}), "mtls"
    )
    for peer in (None, {}, certificate("node 2"), certificate("node 1,O=Acme")):
        assert isinstance(door.authenticate([], peer), Refusal)
    assert subject_of(certificate("a,O=Acme")) == "CN=a\\,O\\=Acme,O=Acme"


def test_a_wrong_header_is_not_made_good_by_a_certificate() -> None:
    subjects = read_subjects("CN=n,O=Acme: n")
    door = Authenticator(Rules(), Clock(), users=users(), subjects=subjects)
    assert isinstance(door.authenticate(basic("alice", "x"), certificate("n")), Refusal)


@pytest.mark.parametrize(
    ("roles", "alice", "bob"),
    [
        (("**",), 0, 0),
        (("*",), 0, 403),
        (("reader", "x"), 0, 403),
        (("x",), 403, 403),
        ((), 403, 403),
    ],
)
def test_roles_that_may_come_in(roles: tuple[str, ...], alice: int, bob: int) -> None:
    door = Authenticator(Rules(roles), Clock(), users=users())
    for name, password, expected in (("alice", "wonder", alice), ("bob", "b", bob)):
        answer = door.authenticate(basic(name, password))
        assert (answer.status if isinstance(answer, Refusal) else 0) == expected


def test_paths_without_authentication() -> None:
    door = Authenticator(Rules(skip_paths=("/info", "/chc/*")), Clock(), users=users())
    assert door.authenticate([], path="/info") is ANONYMOUS
    assert door.authenticate([], path="/chc/live") is ANONYMOUS
    for path in ("/ksql", "/info/", "/INFO", "/informal", "//info", ""):
        assert isinstance(door.authenticate([], path=path), Refusal)


def test_everything_from_a_configuration(tmp_path: Path) -> None:
    people, signers = tmp_path / "users", tmp_path / "jwks.json"
    people.write_text(f"alice: {hashed('wonder', CHEAP).text()}\n")
    signers.write_text(json.dumps(jwks()))
    flags = {
        "authentication.method": "BASIC, BEARER",
        "authentication.users.file": str(people),
        "authentication.jwt.keys": str(signers),
        "authentication.jwt.issuer": ISSUER,
        "authentication.jwt.audience": AUDIENCE,
    }
    for wide in (people, signers):
        people.chmod(0o600)
        signers.chmod(0o600)
        wide.chmod(0o644)
        with pytest.raises(StatementError, match="others than its owner"):
            authenticator(load_config(flags=flags))
    signers.chmod(0o600)
    people.chmod(0o600)
    clock = Clock()
    door = authenticator(load_config(flags=flags), monotonic=clock, now=clock)
    assert isinstance(door.authenticate(basic("alice", "wonder")), Principal)
    assert isinstance(door.authenticate(bearer(signed(claims()))), Principal)
    nobody = authenticator(load_config())
    assert not nobody.on and nobody.authenticate([]) is ANONYMOUS

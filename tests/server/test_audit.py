"""The audit log: one line an event, nothing in it that should not be."""

from __future__ import annotations

import json
import secrets
from pathlib import Path

import pytest

import millstream
from millstream.model.errors import MillstreamError
from millstream_server.auth.access import Access, authorise
from millstream_server.auth.audit import Audit, Event, masked
from millstream_server.auth.auth import Authenticator, Rules
from millstream_server.auth.needs import Kind, Need, Operation
from millstream_server.auth.passwords import hashed, read_users
from millstream_server.auth.principal import Principal, Refusal
from millstream_server.bootstrap.config import load_config
from tests.server.keys import Clock, basic, bearer, claims, jwks, signed
from tests.server.test_auth import CHEAP, tokens

KEYS = ["password", "secret", "token", "credentials", "api_key", "jaas", "cookie", "pwd", "x"]


def audit() -> tuple[Audit, list[str]]:
    lines: list[str] = []
    return Audit(lines.append, Clock()), lines


@pytest.mark.parametrize(
    "nasty",
    [
        "a\r\nb",
        "\x1b[2J\x1b]0;title\x07",
        "\x7f\x9b31m",
        "\u2028\u2029\u0085",
        '","event":"admin"}\n{"x":"',
        "\ud800",
        "‮evil",
        "\0",
    ],
)
def test_no_text_leaves_its_line(nasty: str) -> None:
    log, lines = audit()
    log.event(Event.REFUSED, Principal(nasty), path=nasty, statement=nasty, more={nasty: nasty})
    (line,) = lines
    assert line.endswith("\n") and all(" " <= sign <= "~" for sign in line[:-1])
    entry = json.loads(line)
    assert (entry["event"], entry["principal"], entry["path"]) == ("refused", nasty, nasty)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (
            "SELECT * FROM t WHERE a='x''y' AND b1 > 12.5e-3;",
            "SELECT * FROM t WHERE a='***' AND b1 > ?;",
        ),
        ("INSERT INTO t VALUES ('it', 'unclosed", "INSERT INTO t VALUES ('***', '***'"),
        ("SELECT 1 -- secret\n, 2 /* secret */ FROM t", "SELECT ? , ? FROM t"),
        ("SELECT /* secret", "SELECT"),
        ('SELECT "a b", `c d` FROM t', 'SELECT "a b", `c d` FROM t'),
        ('SELECT "secret', "SELECT ***"),
        ("SELECT $$secret$$, $$secret", "SELECT '***', '***'"),
        ("SELECT 0x53, .5, 1_000secret", "SELECT ?, ?, ?"),
    ],
)
def test_literals_are_masked(statement: str, expected: str) -> None:
    assert masked(statement) == expected


def test_long_statements_are_cut_and_cost_little() -> None:
    for text in ("(" * 1_000_000, "'" * 999_999, "/*" * 500_000, "a" * 1_000_000, "1e+" * 300_000):
        assert len(masked(text)) < 9_000


def test_fields_are_bounded_and_redacted() -> None:
    log, lines = audit()
    deep: object = "end"
    for _ in range(100):
        deep = [deep]
    log.event(
        Event.ADMIN,
        properties={"sasl.password": "canary", "a": ["canary-not", {"api.key": "canary"}]},
        authorization="canary",
        number=float("nan"),
        many=list(range(10_000)),
        text="x" * 1_000_000,
        deep=deep,
    )
    assert len(lines[0]) < 10_000
    assert "canary" not in lines[0].replace("canary-not", "")


def test_thirty_canaries_show_nowhere(tmp_path: Path) -> None:
    canaries = [f"CANARY{number}{secrets.token_hex(8)}" for number in range(30)]
    shown: list[str] = []
    log = Audit(shown.append, Clock())
    # In settings.
    file = tmp_path / "secrets"
    file.write_text(f"k={canaries[0]}\n")
    file.chmod(0o600)
    flags = {
        "ssl.key.password": "${env:C1}",
        "sasl.password": f"${{file:{file}:k}}",
        "sasl.jaas.config": f"password={canaries[2]}",
        "millstream.kafka.ssl.key.pem": canaries[3],
    }
    config = load_config(environment={"C1": canaries[1]}, flags=flags)
    shown += [repr(config), str(config.values), str(config.kafka), str(config.warnings)]
    for name, canary in zip(
        ("ksql.max.push.queries", "num.stream.threads"), canaries[4:6], strict=True
    ):
        with pytest.raises(MillstreamError) as caught:
            load_config(environment={"S": canary}, flags={name: "${env:S}"})
        shown.append(str(caught.value))
    # In passwords and tokens, right ones and wrong ones.
    people = read_users(f"alice: {hashed(canaries[6], CHEAP).text()}\n")
    door = Authenticator(Rules(), Clock(), users=people, tokens=tokens(Clock()))
    forged = signed(claims(iss=canaries[7]))
    good = signed(claims())
    for headers in (
        basic("alice", canaries[6]),
        basic("alice", canaries[8]),
        basic("bob", canaries[9]),
        bearer(canaries[10]),
        bearer(forged),
        bearer(good),
        [(b"authorization", f"Custom {canaries[11]}".encode())],
    ):
        answer = door.authenticate(headers)
        shown.append(repr(answer))
        if isinstance(answer, Refusal):
            log.refused(answer, headers={"authorization": headers[0][1]})
            shown.append(f"{answer.message} {answer.hint} {answer.headers}")
        else:
            log.event(Event.STATEMENT, answer)
    shown += [repr(door), repr(people), repr(vars(door))]
    # In statements that run, that fail and that do not parse.
    with millstream.connect() as database:
        for canary, text in zip(
            canaries[12:],
            (
                "CREATE STREAM s (a STRING) WITH (kafka_topic='t', format='JSON', partitions=1);",
                "INSERT INTO s VALUES ('{}');",
                "SELECT * FROM s WHERE a = '{}';",
                "CREATE SOURCE CONNECTOR c WITH ('connection.password'='{}');",
                "SELECT '{}",
                "/* {} */ SELECT",
                "SET 'sasl.password' = '{}';",
            ),
            strict=False,
        ):
            statement = text.format(canary)
            log.event(Event.STATEMENT, Principal("alice"), statement=statement)
            try:
                database.execute(statement)
            except MillstreamError as error:
                log.event(Event.REFUSED, Principal("alice"), code=error.code)
    need = Need(Kind.TOPIC, "t", Operation.READ)
    refusal = authorise(Access(), Principal("alice"), [need])
    assert refusal is not None
    log.refused(refusal, Principal("alice"), statement=f"PRINT '{canaries[20]}'")
    for number, canary in enumerate(canaries[21:]):
        key = (
            "password",
            "secret",
            "token",
            "credentials",
            "api_key",
            "jaas",
            "cookie",
            "pwd",
            "x",
        )[number]
        log.event(Event.ADMIN, **({key: canary} if key != "x" else {"statement": f"'{canary}'"}))
    everything = "\n".join(shown)
    assert everything.count("\n") > 30
    assert [canary for canary in canaries if canary in everything] == []
    for part in (forged, good, jwks()["keys"][2]["k"]):
        assert part not in everything

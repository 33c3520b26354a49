"""Settings: their origin, refusals, and that every limit is finite."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from millstream.model.errors import StatementError
from millstream_server.bootstrap.boot import check_boot
from millstream_server.bootstrap.config import PROPERTY_NAMES, load_config
from millstream_server.bootstrap.options import BY_NAME, OPTIONS, WITHOUT_EFFECT, ValueKind
from millstream_server.bootstrap.secret import References, Secret, is_secret_key

KEYSTORE = {"ssl.keystore.location": "/etc/server.pem"}
BASIC = {"authentication.method": "BASIC", "authentication.users.file": "/etc/users"}
WORLD, LOCAL = "http://0.0.0.0:8088", "http://127.0.0.1:8088"
SAFE_WORLD = "https://0.0.0.0:8088"


@pytest.mark.parametrize(
    ("flags", "insecure", "refused"),
    [
        ({}, False, None),
        ({"listeners": LOCAL}, False, None),
        ({"listeners": "http://[::1]:8088"}, False, None),
        ({"listeners": WORLD}, False, "E-INSECURE"),
        ({"listeners": WORLD, **BASIC}, False, "E-INSECURE"),
        ({"listeners": SAFE_WORLD, **KEYSTORE}, False, "E-INSECURE"),
        ({"listeners": SAFE_WORLD, **KEYSTORE, **BASIC}, False, None),
        ({"listeners": SAFE_WORLD, **BASIC}, False, "E-CONFIG"),
        ({"listeners": f"{LOCAL},{WORLD}"}, False, "E-INSECURE"),
        ({"listeners": "http://[::]:8088"}, False, "E-INSECURE"),
        ({"listeners": "http://db.example:8088"}, False, "E-INSECURE"),
        ({"listeners": WORLD}, True, None),
    ],
)
def test_boot_matrix(flags: dict[str, str], insecure: bool, refused: str | None) -> None:
    config = load_config(flags=flags, insecure=insecure)
    if refused is None:
        assert check_boot(config)
        return
    with pytest.raises(StatementError) as caught:
        check_boot(config)
    assert caught.value.code == refused


@pytest.mark.parametrize(
    "flags",
    [
        {"authentication.method": "BASIC"},
        {"authentication.method": "KERBEROS"},
        {"authentication.method": "BEARER", "authentication.jwt.keys": "/k"},
        {"authentication.method": "MTLS", "authentication.subjects.file": "/s"},
        {"listeners": ""},
        {"listeners": "ftp://127.0.0.1:1"},
        {"listeners": "http://127.0.0.1:99999"},
        {"listeners": "http://user:pw@127.0.0.1:1"},
        {"ssl.keystore.type": "JKS"},
    ],
)
def test_configurations_that_cannot_be_meant(flags: dict[str, str]) -> None:
    with pytest.raises(StatementError):
        check_boot(load_config(flags=flags))


def test_the_insecure_flag_is_on_the_command_line_only(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("insecure-i-know=true\ninsecure=true\nlisteners=http://0.0.0.0:1\n")
    environment = {"MILLSTREAM_INSECURE": "true", "MILLSTREAM_INSECURE_I_KNOW": "true"}
    with pytest.raises(StatementError, match="Unknown setting: insecure"):
        load_config([str(file)], environment)
    file.write_text("listeners=http://0.0.0.0:1\n")
    with pytest.raises(StatementError, match="Refusing to listen"):
        check_boot(load_config([str(file)]))


def test_flags_before_environment_before_files(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.write_text("ksql.service.id=a\nlisteners=http://127.0.0.1:1\nksql.streams.state.dir=a\n")
    second.write_text("# later\nksql.service.id = b\nauto.offset.reset=earliest\n")
    environment = {
        "KSQL_LISTENERS": "http://127.0.0.1:2",
        "MILLSTREAM_LISTENERS": "http://127.0.0.1:3",
        "KSQL_HEAP_OPTS": "-Xmx1g",
        "KSQL_KSQL_STREAMS_STATE_DIR": "e",
        "KSQL_KSQL_STREAMS_NUM_STREAM_THREADS": "3",
    }
    config = load_config([str(first), str(second)], environment, {"ksql.streams.state.dir": "f"})
    assert config.text("ksql.service.id") == "b"
    assert config.texts("listeners") == ("http://127.0.0.1:3",)
    assert config.text("ksql.streams.state.dir") == "f"
    assert config.properties == {"auto.offset.reset": "earliest", "num.stream.threads": "3"}
    assert config.warnings == ()


UNKNOWN = {
    "listners": "listeners",
    "ksql.service.ids": "ksql.service.id",
    "ksql.streams.auto.offset.rest": "auto.offset.reset",
    "num.standby.replica": "num.standby.replicas",
    "session.timeout": "session.timeout.ms",
    "millstream.conections.max": "millstream.connections.max",
    "authentication.methods": "authentication.method",
    "ksql.extension.dirs": "ksql.extension.dir",
}


@pytest.mark.parametrize(("name", "near"), UNKNOWN.items())
@pytest.mark.parametrize("way", ["flag", "file", "environment"])
def test_unknown_settings_are_refused_with_a_near_one(
    name: str, near: str, way: str, tmp_path: Path
) -> None:
    file = tmp_path / "server.properties"
    file.write_text(f"{name}=x\n" if way == "file" else "")
    environment = {f"KSQL_{name.upper().replace('.', '_')}": "x"} if way == "environment" else {}
    with pytest.raises(StatementError, match="Unknown setting") as caught:
        load_config([str(file)], environment, {name: "x"} if way == "flag" else {})
    assert (caught.value.code, near in caught.value.hint) == ("E-CONFIG", True)


def test_unknown_settings_are_shown_in_one_line() -> None:
    with pytest.raises(StatementError, match=r"Unknown setting: zzz\\n\."):
        load_config(flags={"zzz\n": "y"})


def test_settings_without_effect_are_warned_about() -> None:
    config = load_config(flags={"ksql.verticle.instances": "4", "ksql.streams.poll.ms": "1"})
    assert config.warnings == (
        "The setting ksql.verticle.instances has no effect in Millstream",
        "The setting ksql.streams.poll.ms has no effect in Millstream",
    )
    known = {*BY_NAME, *PROPERTY_NAMES}
    assert not [name for name in WITHOUT_EFFECT if name in known]


def test_variables_of_others_are_no_settings() -> None:
    environment = {
        "KSQL_HEAP_OPTS": "-Xmx1g",
        "KSQL_SERVICE_HOST": "10.0.0.1",
        "KSQL_SERVICE_PORT_HTTP": "8088",
        "KSQL_SERVER_PORT": "tcp://10.0.0.1:8088",
        "MILLSTREAM_PORT_8088_TCP_ADDR": "10.0.0.1",
        "MILLSTREAM_REQUIRE_CLIENTS": "1",
        "MILLSTREAM_KAFKA": "127.0.0.1:9092",
        "MILLSTREAM_TOKEN": "canary",
    }
    assert load_config(environment=environment) == load_config()


def test_no_limit_is_unlimited() -> None:
    config = load_config()
    for option in OPTIONS:
        if option.kind in (ValueKind.COUNT, ValueKind.SIZE, ValueKind.SECONDS):
            value = config.values[option.name]
            assert isinstance(value, int | float) and 0 < value <= option.most < 1e15, option.name
            for bad in ("0", "-1", "inf", "nan", "1e400", "", "x", "9" * 15, "9" * 400):
                with pytest.raises(StatementError, match=r"cannot be"):
                    load_config(flags={option.name: bad})


def test_defaults_of_the_limits() -> None:
    config = load_config()
    assert config.count("ksql.max.push.queries") == 100
    assert config.count("ksql.query.pull.max.concurrent.requests") == 64
    assert config.count("ksql.query.pull.coordinator.queue.capacity") == 256
    assert config.count("millstream.result.max.rows") == 1_000_000
    assert config.count("millstream.result.max.bytes") == 64 << 20
    assert config.seconds("millstream.request.deadline.seconds") == 30
    assert config.count("millstream.body.max.bytes") == 1 << 20
    assert config.count("millstream.headers.max.bytes") == 16 << 10
    assert config.count("millstream.statements.max") == 500


def test_secrets_come_from_references_and_do_not_show(tmp_path: Path) -> None:
    file = tmp_path / "secrets"
    file.write_text("kafka=k-canary\n")
    file.chmod(0o600)
    environment = {"KEY_PASSWORD": "e-canary"}
    config = load_config(
        environment=environment,
        flags={
            "ssl.key.password": "${env:KEY_PASSWORD}",
            "sasl.password": f"${{file:{file}:kafka}}",
            "sasl.jaas.config": f"user pw=${{file:{file}:kafka}};",
        },
    )
    assert config.secret("ssl.key.password").reveal() == "e-canary"
    found = config.kafka["sasl.password"]
    assert isinstance(found, Secret) and found.reveal() == "k-canary"
    for text in (repr(config), str(config), f"{found}", f"{found!r:>9}", "%s" % found):  # noqa: UP031
        assert "canary" not in text
    with pytest.raises(TypeError):
        pickle.dumps(found)


def test_a_file_of_secrets_is_its_owner_s_alone(tmp_path: Path) -> None:
    file = tmp_path / "secrets"
    file.write_text("a=b")
    references = References({})
    for mode in (0o644, 0o640, 0o602):
        file.chmod(mode)
        with pytest.raises(StatementError, match="others than its owner"):
            references.resolve(f"${{file:{file}:a}}")
    file.chmod(0o600)
    assert references.resolve(f"x${{file:{file}:a}}y").reveal() == "xby"
    for wrong in ("${env:NOT_SET}", f"${{file:{file}:b}}", f"${{file:{tmp_path}:a}}"):
        with pytest.raises(StatementError):
            references.resolve(wrong)


def test_what_a_reference_brings_is_not_looked_through_again() -> None:
    references = References({"A": "${env:B}", "B": "b"})
    assert references.resolve("${env:A}").reveal() == "${env:B}"


def test_settings_with_secrets_are_masked_by_name() -> None:
    secrets = (
        "ssl.key.password sasl.jaas.config ksql.schema.registry.basic.auth.user.info API_KEY "
        "connect.passwd aws.secret.access.key bearer.auth.token db.passphrase"
    )
    assert all(map(is_secret_key, secrets.split()))
    assert not any(
        map(is_secret_key, ("ksql.service.id", "KAFKA_TOPIC", "KEY_FORMAT", "listeners"))
    )

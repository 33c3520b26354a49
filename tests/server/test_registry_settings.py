"""The registry that a server and the command use."""

from __future__ import annotations

from pathlib import Path

import pytest

from millstream.model.errors import StatementError
from millstream_cli.main import main
from millstream_server.bootstrap.config import load_config
from millstream_server.bootstrap.startup import open_database
from tests.other_registry import OtherRegistry, served

CREATE = "CREATE STREAM s (n INT) WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='AVRO');"


def test_a_server_uses_the_one_of_its_settings(tmp_path: Path) -> None:
    other = OtherRegistry()
    other.user = "ann:s3cret"
    file = tmp_path / "secrets"
    file.write_text("user=ann:s3cret\n")
    file.chmod(0o600)
    with served(other) as url:
        config = load_config(
            environment={"KSQL_KSQL_SCHEMA_REGISTRY_URL": url},
            flags={
                "ksql.schema.registry.basic.auth.credentials.source": "USER_INFO",
                "ksql.schema.registry.basic.auth.user.info": f"${{file:{file}:user}}",
            },
        )
        assert "s3cret" not in repr(config)
        with open_database(config) as database:
            database.execute(CREATE)
    assert set(other.subjects) == {"s-value"}


def test_it_inherits_the_credentials_of_the_brokers() -> None:
    other = OtherRegistry()
    other.user = "ann:s3cret"
    with served(other) as url:
        config = load_config(
            flags={
                "ksql.schema.registry.url": url,
                "ksql.schema.registry.basic.auth.credentials.source": "SASL_INHERIT",
                "sasl.username": "ann",
                "sasl.password": "s3cret",
            }
        )
        with open_database(config) as database:
            database.execute(CREATE)


def test_an_empty_url_is_none_as_in_ksqldb() -> None:
    with open_database(load_config(flags={"ksql.schema.registry.url": ""})) as database:
        database.execute(CREATE)
        assert database.engine.log.topic("_millstream_schemas") is not None


def test_credentials_in_a_url_do_not_show() -> None:
    config = load_config(flags={"ksql.schema.registry.url": "http://ann:canary@localhost:1"})
    assert "canary" not in repr(config)
    config = load_config(flags={"ksql.schema.registry.urls": "http://localhost:1"})
    with pytest.raises(StatementError, match="no setting 'urls'"):
        open_database(config)


def test_the_command_has_options_for_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = OtherRegistry()
    other.user = "ann:s3cret"
    with served(other) as url:
        setting = "basic.auth.user.info=ann:s3cret"
        arguments = ["--schema-registry", url, "--registry-setting", setting]
        assert main([*arguments, "-e", CREATE]) == 0
        file = tmp_path / "config"
        file.write_text(f"ksql.schema.registry.url = {url}\nksql.schema.registry.{setting}\n")
        assert main(["--config-file", str(file), "-e", CREATE]) == 0
        assert main(["--schema-registry", url, "-e", CREATE]) == 1
    assert "does not let this server do what it needs" in capsys.readouterr().err
    assert set(other.subjects) == {"s-value"}

"""The configuration of a connector that makes up records, with the names of settings that the
connector kafka-connect-datagen has."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from millstream.connectors import wordings
from millstream.connectors.presets import PRESETS, Preset, Row
from millstream.model.errors import StatementError
from millstream.model.nearest import did_you_mean

CLASSES = ("datagen", "DatagenConnector", "io.confluent.kafka.connect.datagen.DatagenConnector")
"""What `connector.class` may be, the first one for short."""
_CONVERTERS = {
    "org.apache.kafka.connect.json.JsonConverter": "JSON",
    "io.confluent.connect.avro.AvroConverter": "AVRO",
    "io.confluent.connect.protobuf.ProtobufConverter": "PROTOBUF",
    "io.confluent.connect.json.JsonSchemaConverter": "JSON_SR",
}
"""The formats of values by the names of Kafka Connect's converters."""
_TEXT_KEYS = "org.apache.kafka.connect.storage.StringConverter"
_INTERVAL_MS = 500
_SETTINGS = (
    *("connector.class", "kafka.topic", "quickstart", "max.interval", "iterations", "random.seed"),
    *("value.converter", "key.converter", "topic.creation.default.partitions"),
)
_WITHOUT_EFFECT = re.compile(
    r"name|tasks\.max|(key|value)\.converter\.(schemas\.enable|schema\.registry\.url)"
    r"|topic\.creation\.default\.replication\.factor"
)
"""Settings of all connectors that mean nothing here."""


@dataclass(frozen=True, slots=True)
class Datagen:
    """What is made, and how often: rows are up to `interval_ms` apart, half of that on average; 0
    for as many as possible. `iterations`: how many in all; None for no end. The same `seed` gives
    the same rows, apart from their times. `text_keys`: whether keys are written as text."""

    preset: Preset
    topic: str
    partitions: int = 1
    interval_ms: int = _INTERVAL_MS
    iterations: int | None = None
    seed: int | None = None
    value_format: str = "JSON"
    text_keys: bool = False

    def rows(self, start: int, count: int, now: int, chance: Random) -> list[Row]:
        """Rows from the number `start` on, made at the time `now`. `chance` is for those without a
        seed."""
        return [
            self.preset.row(
                chance if self.seed is None else Random(f"{self.seed}/{number}"), number, now
            )
            for number in range(start, start + count)
        ]


def normal(config: Mapping[str, str]) -> dict[str, str]:
    """The settings by their names as Kafka Connect writes them: `CONNECTOR` and `KAFKA_TOPIC` are
    short for `'connector.class'` and `'kafka.topic'`."""
    renamed = {key.lower().replace("_", "."): value for key, value in config.items()}
    short = renamed.pop("connector", None)
    return renamed if short is None else {"connector.class": short, **renamed}


def is_datagen(config: Mapping[str, str]) -> bool:
    """Whether a configuration, as `normal` returns it, is that of a connector of this kind."""
    return config.get("connector.class", "") in CLASSES


def read_datagen(name: str, config: Mapping[str, str]) -> Datagen:
    """The configuration of a connector. Raises StatementError for one that is not valid, and for
    settings that are not known."""
    for key in config:
        if key not in _SETTINGS and not _WITHOUT_EFFECT.fullmatch(key):
            raise _invalid(name, key, "is no setting of it", _near(key, _SETTINGS))
    preset = PRESETS.get(config.get("quickstart", "").lower())
    if preset is None:
        given = config.get("quickstart")
        problem = f"cannot be '{given}'" if given else "is missing, which says what is made up"
        raise _invalid(name, "quickstart", problem, f"One of {', '.join(PRESETS)}.")
    topic = config.get("kafka.topic", "")
    if not topic:
        raise _invalid(name, "kafka.topic", "is missing", "It names the topic that is written.")
    setting = "value.converter.schemas.enable"
    if config.get(setting, "false").lower() == "true":
        hint = "JSON has no schema in each record here: set it to 'false', or take JSON_SR."
        raise _invalid(name, setting, "cannot be 'true'", hint)
    iterations = _number(name, config, "iterations", -1, -1)
    seed = _number(name, config, "random.seed", None, -(1 << 63))
    return Datagen(
        preset,
        topic,
        _number(name, config, "topic.creation.default.partitions", 1, 1) or 1,
        _number(name, config, "max.interval", _INTERVAL_MS, 0) or 0,
        None if iterations == -1 else iterations,
        seed,
        _value_format(name, config.get("value.converter", "JSON")),
        _text_keys(name, config.get("key.converter", "KAFKA")),
    )


def _value_format(name: str, given: str) -> str:
    if given.upper() in _CONVERTERS.values():
        return given.upper()
    if given not in _CONVERTERS:
        known = ", ".join((*_CONVERTERS.values(), *_CONVERTERS))
        raise _invalid(name, "value.converter", f"cannot be '{given}'", f"One of {known}.")
    return _CONVERTERS[given]


def _text_keys(name: str, given: str) -> bool:
    if given.upper() not in ("KAFKA", "STRING") and given != _TEXT_KEYS:
        hint = f"KAFKA, which is the default, or {_TEXT_KEYS} for keys as text."
        raise _invalid(name, "key.converter", f"cannot be '{given}'", hint)
    return given.upper() != "KAFKA"


def _number(
    name: str, config: Mapping[str, str], key: str, default: int | None, least: int
) -> int | None:
    text = config.get(key)
    if text is None:
        return default
    if not re.fullmatch(r"-?[0-9]{1,18}", text) or int(text) < least:
        raise _invalid(name, key, f"cannot be '{text}'", f"It is an integer from {least} on.")
    return int(text)


def _near(key: str, known: Sequence[str]) -> str:
    return did_you_mean(key, known) or f"Its settings are {', '.join(known)}."


def _invalid(name: str, setting: str, problem: str, hint: str) -> StatementError:
    return wordings.CONNECTOR_INVALID(name=name, setting=setting, problem=problem, hint=hint)

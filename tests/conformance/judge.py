"""Compares the engine's result of a case with the expected one."""

from __future__ import annotations

import base64
import re
from typing import Any

from millstream.catalog.formats import INFERRING
from millstream.catalog.source import Format, Source
from millstream.model.schema import Column, Schema, SourceKind, WindowedKey
from millstream.plan.types import sql_type
from millstream.scripts.text import parse_text
from millstream.service.engine import Engine
from millstream_cli.testing.wire import split_window
from millstream_parser import statements as s
from tests.conformance import registered
from tests.conformance.cases import Case, Record
from tests.conformance.compare import row_difference
from tests.conformance.wire import decode


class StopError(Exception):
    """The engine refused the case; `phase` is parse, statement or records."""

    def __init__(self, phase: str, error: Exception | str) -> None:
        super().__init__(str(error))
        self.phase = phase


def _sink_of(topic: str, engine: Engine) -> Source:
    found = engine.catalog.over_topic(topic)
    if not found:
        raise StopError("records", f"no source over topic {topic}")
    return next((source for source in found if source.query_id is not None), found[0])


def judge_error(case: Case, stopped: StopError | None) -> tuple[str, bool]:
    expected = case.raw["error"]
    if stopped is None:
        return "accepted: an error was expected", False
    wanted = expected["phase"]
    right = (
        wanted == "any"
        or wanted == stopped.phase
        or {wanted, stopped.phase}
        == {
            "parse",
            "statement",
        }
    )
    if not right:
        return f"wrong phase: {stopped.phase} instead of {wanted}: {stopped}", False
    texts = [expected.get("message"), expected.get("cause_message")]
    return "", all(text is None or text in str(stopped) for text in texts)


def compare(case: Case, engine: Engine) -> str:
    for topic in dict.fromkeys(record["topic"] for record in case.outputs):
        expected = [record for record in case.outputs if record["topic"] == topic]
        actual = records_of(topic, engine)
        for index, record in enumerate(expected[: len(actual)]):
            sink = _sink_of(topic, engine)
            reason = _record_difference(record, actual[index], sink, case, engine)
            if reason:
                return f"mismatch: {topic}[{index}] {reason}"
        if len(expected) != len(actual):
            return f"mismatch: {topic} has {len(actual)} records, expected {len(expected)}"
    return ""


def contained(case: Case, engine: Engine) -> str:
    """Whether the expected records are on their topics, in whatever partitions; without headers."""
    for topic in dict.fromkeys(record["topic"] for record in case.outputs):
        left = records_of(topic, engine)
        source = _sink_of(topic, engine)
        for record in case.outputs:
            if record["topic"] != topic:
                continue
            wanted = {**record, "headers": []}
            found = [r for r in left if not _record_difference(wanted, r, source, case, engine)]
            if not found:
                return f"mismatch: {topic} has no {record}, but {left}"
            left.remove(found[0])
    return ""


def records_of(topic: str, engine: Engine) -> list[dict[str, Any]]:
    described = engine.log.topic(topic)
    found: list[dict[str, Any]] = []
    for partition in range(described.partitions if described else 0):
        position = 0
        while True:
            fetched = engine.log.read(topic, partition, position, 10_000)
            found += fetched.batch.to_pylist()
            if fetched.end:
                break
            position = fetched.next_offset
    return found


def _record_difference(
    expected: Record, actual: dict[str, Any], source: Source, case: Case, engine: Engine
) -> str:
    key_bytes, window = split_window(actual["key"], source.window)
    key = _decoded(key_bytes, source.key_format, source.schema.key, engine)
    value = _decoded(actual["value"], source.value_format, source.schema.value, engine)
    checks = (
        ("key", row_difference(expected["key"], key, _columns(source.schema.key))),
        ("value", row_difference(expected["value"], value, _columns(source.schema.value))),
        ("window", _window_difference(expected.get("window"), window, source.window)),
        ("headers", _headers_difference(expected["headers"], actual["headers"])),
        ("timestamp", _time_difference(expected, actual, case)),
    )
    return "; ".join(f"{what}: {reason}" for what, reason in checks if reason)


def _decoded(data: bytes | None, form: Format, columns: tuple[Column, ...], engine: Engine) -> Any:
    if data is None or form.name not in INFERRING:
        return decode(data, form, columns)
    return registered.decode(data, form.name, registered.registry_of(engine))


def _columns(columns: tuple[Column, ...]) -> tuple[tuple[str, Any], ...]:
    return tuple((column.name, column.type) for column in columns)


def _window_difference(
    expected: dict[str, Any] | None, actual: dict[str, Any] | None, windowed: WindowedKey | None
) -> str | None:
    if expected is None:
        return "is windowed" if windowed is not None and actual is not None else None
    return None if actual == expected else f"expected {expected}, got {actual}"


def _headers_difference(expected: list[Any], actual: list[Any] | None) -> str | None:
    found = [
        {
            "key": item["key"],
            "value": None if item["value"] is None else base64.b64encode(item["value"]).decode(),
        }
        for item in actual or []
    ]
    return None if found == expected else f"expected {expected}, got {found}"


def _time_difference(expected: Record, actual: dict[str, Any], case: Case) -> str | None:
    if "ts" not in expected or (not case.inputs and expected["ts"] == 0):
        return None
    if expected["ts"] == actual["timestamp"]:
        return None
    return f"expected {expected['ts']}, got {actual['timestamp']}"


def post_difference(case: Case, engine: Engine) -> str:
    post = case.raw.get("post", {})
    for wanted in post.get("sources", []):
        reason = _source_difference(wanted, engine)
        if reason:
            return f"post condition: {wanted['name']}: {reason}"
    if post.get("forbidden_topics") == ".*-repartition":
        for topic in engine.log.topics():
            if topic.name.endswith("-repartition"):
                return f"post condition: topic {topic.name} should not exist"
    return ""


def _source_difference(wanted: dict[str, Any], engine: Engine) -> str | None:
    source = engine.catalog.sources.get(wanted["name"])
    if source is None:
        return "does not exist"
    if wanted.get("type") and source.kind is not SourceKind(wanted["type"].upper()):
        return f"is a {source.kind.value}"
    if wanted.get("schema") and _declared(wanted["schema"]) != _shape(source.schema):
        return f"expected the schema {wanted['schema']}, got {source.schema}"
    form = wanted.get("key_format")
    if form is not None:
        if form.get("format") not in (None, source.key_format.name):
            return f"key format is {source.key_format.name}"
        window = form.get("window") or {}
        kind = source.window.kind.value if source.window else None
        if (window.get("type") or form.get("window_type")) != kind:
            return f"window is {source.window}, expected {form}"
    if wanted.get("value_format") not in (None, source.value_format.name):
        return f"value format is {source.value_format.name}"
    if wanted.get("is_source") not in (None, source.read_only):
        return f"is {'' if source.read_only else 'not '}read-only"
    return None


def _declared(text: str) -> list[tuple[str, str, bool]]:
    # Schemas of the suite have unquoted column names; SQL requires quotes around a leading digit.
    text = re.sub(r"(?<![\w`(])(\d\w*)(?= [A-Z])", r"`\1`", text.replace("PRIMARY KEY", "KEY"))
    (piece,) = parse_text(f"CREATE STREAM x ({text});")
    statement = piece.statement
    assert isinstance(statement, s.CreateSource)
    return [
        (element.name, str(sql_type(element.type, {})), element.role is s.ColumnRole.KEY)
        for element in statement.elements
    ]


def _shape(schema: Schema) -> list[tuple[str, str, bool]]:
    keys = set(schema.key)
    return [(column.name, str(column.type), column in keys) for column in schema.columns]

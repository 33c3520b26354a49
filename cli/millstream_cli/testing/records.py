"""Runs tests in the format of ksqlDB's ksql-test-runner: `statements.sql`, `input.json` and
`output.json`.

The JSON files have `inputs` and `outputs`: records with `topic`, `key`, `value`, `timestamp`,
`window` and `headers`. The records of each topic in `outputs` must equal the expected ones, in
order. The timestamp of a record is compared only if it is given.
"""

from __future__ import annotations

import base64
import difflib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from millstream.catalog.source import Source
from millstream.formats.partition import partition_of
from millstream.log.log import Appended
from millstream.model.batch import raw_batch
from millstream.model.errors import MillstreamError, StatementError
from millstream.scripts.text import read_text
from millstream.service.engine import Engine
from millstream_cli.testing.cases import Case
from millstream_cli.testing.outcomes import Failed, Failure
from millstream_cli.testing.parsing import TestFileError, read_file
from millstream_cli.testing.running import (
    CaseResult,
    CaseRun,
    Embedded,
    Options,
    steps_failure,
    timed,
)
from millstream_cli.testing.wire import decode, encode, json_text, split_window, window_suffix

Record = dict[str, Any]
_READ_MAX = 100_000
_FIELDS = {"topic", "key", "value", "timestamp", "window", "headers"}


@dataclass(frozen=True, slots=True)
class RecordsCase:
    """Statements with input records and expected output records."""

    statements: Case
    inputs: tuple[Record, ...]
    outputs: tuple[Record, ...]


def read_records_case(statements: str, inputs: str | None, outputs: str) -> RecordsCase:
    """The case of these files. Raises TestFileError if one of them cannot be read."""
    cases = read_file(statements).cases
    if len(cases) != 1:
        raise TestFileError("With records in JSON files, the statements must be one case", 1)
    given = () if inputs is None else _records(inputs, "inputs")
    expected = _records(outputs, "outputs")
    if not expected:
        raise TestFileError(f"{outputs} expects no record: 'outputs' is empty", 1)
    return RecordsCase(cases[0], given, expected)


def _records(path: str, field: str) -> tuple[Record, ...]:
    try:
        found = json.loads(read_text(path, "the test file"), parse_float=Decimal)
        records = found[field]
        for record in records:
            if record.keys() - _FIELDS or not isinstance(record["topic"], str):
                raise KeyError(f"a record has {', '.join(sorted(_FIELDS))}")
    except StatementError as error:
        raise TestFileError(error.message, 1) from error
    except (ValueError, KeyError, TypeError, AttributeError) as failure:
        raise TestFileError(
            f"{path} is not a file of {field}: {failure}", 1,
            hint=f'It is a JSON object: {{"{field}": [{{"topic": …, "key": …, "value": …}}, …]}}',
        ) from failure  # fmt: skip
    return tuple(records)


def run_records_case(case: RecordsCase, options: Options) -> CaseResult:
    """Execute the statements, process the records, and compare the output."""
    storage = Embedded(durable=options.restart)
    return run_records_in(CaseRun(storage, options), case)


def run_records_in(run: CaseRun, case: RecordsCase) -> CaseResult:
    """Run a case in the database of a run, and close the database."""
    result = CaseResult(case.statements)
    return timed(run, result, lambda: result.failures.extend(_failures(case, run, result)))


def _failures(case: RecordsCase, run: CaseRun, result: CaseResult) -> list[Failure]:
    failure = steps_failure(run, case.statements, result)
    if failure is not None:
        return [failure]
    try:
        size = run.options.batch or max(1, len(case.inputs))
        for start in range(0, len(case.inputs), size):
            if run.options.restart and start == size * (len(case.inputs) // size // 2):
                run.restart()
            for record in case.inputs[start : start + size]:
                _append(record, run.engine)
            run.process_all()
        run.process_all()
        topics = dict.fromkeys(record["topic"] for record in case.outputs)
        compared = [_compared(topic, case, run.engine) for topic in topics]
    except MillstreamError as error:
        result.outcomes.append(Failed(error))
        return [Failure(case.statements.line, str(error))]
    return [failure for failure in compared if failure is not None]


def _source(topic: str, engine: Engine, *, written: bool) -> Source:
    """The source over a topic whose formats apply to its records. `written`: whether to
    prefer a source that a query writes, or one that none writes."""
    found = engine.catalog.over_topic(topic)
    if not found:
        raise StatementError(f"No stream or table has the topic '{topic}'")
    return next((each for each in found if (each.query_id is not None) is written), found[0])


def _append(record: Record, engine: Engine) -> None:
    source = _source(record["topic"], engine, written=False)
    key = encode(record.get("key"), source.key_format, source.schema.key)
    if record.get("window") and key is not None:
        key += window_suffix(record["window"])
    value = encode(record.get("value"), source.value_format, source.schema.value)
    headers = [
        {"key": each["key"], "value": None if each["value"] is None else _bytes(each["value"])}
        for each in record.get("headers") or ()
    ]
    topic = engine.log.topic(source.topic)
    count = 1 if topic is None else topic.partitions
    partition = 0 if key is None else int(partition_of(pa.array([key], pa.binary()), count)[0])
    rows = raw_batch([(key, value, int(record.get("timestamp") or 0))], [headers or None])
    engine.writer.append([Appended(source.topic, partition, rows, 1, rows.nbytes)])


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as failure:
        raise StatementError(f"The value of a header is not base64: {text}") from failure


def _written(topic: str, engine: Engine) -> list[Record]:
    """All records of a topic, in the form of a JSON test file."""
    source = _source(topic, engine, written=True)
    described = engine.log.topic(topic)
    found: list[Record] = []
    for partition in range(0 if described is None else described.partitions):
        start = engine.log.start_offset(topic, partition)
        for row in engine.log.read(topic, partition, start, _READ_MAX).batch.to_pylist():
            inner, window = split_window(row["key"], source.window)
            record = {
                "topic": topic,
                "key": decode(inner, source.key_format, source.schema.key),
                "value": decode(row["value"], source.value_format, source.schema.value),
                "timestamp": row["timestamp"],
            }
            headers = [
                {"key": h["key"], "value": h["value"] and base64.b64encode(h["value"]).decode()}
                for h in row["headers"] or ()
            ]
            found.append(
                record
                | ({"window": window} if window else {})
                | ({"headers": headers} if headers else {})
            )
    return found


def _compared(topic: str, case: RecordsCase, engine: Engine) -> Failure | None:
    expected = [record for record in case.outputs if record["topic"] == topic]
    actual = _written(topic, engine)
    got = [json_text(record) for record in actual]
    wanted = [
        next(
            (
                got[index]
                for index in (position, *range(len(actual)))
                if index < len(actual) and _matches(record, actual[index])
            ),
            json_text(record),
        )
        for position, record in enumerate(expected)
    ]
    if wanted == got:
        return None
    lines = [line for line in difflib.ndiff(wanted, got) if not line.startswith("?")]
    reason = f"the records of the topic '{topic}' differ: {len(expected)} expected"
    return Failure(case.statements.line, f"{reason}, {len(actual)} found", tuple(lines))


def _matches(expected: Record, actual: Record) -> bool:
    window = expected.get("window")
    if window and "type" in window:
        window = {**window, "type": str(window["type"]).lower()}
    there = actual.get("window")
    if there and window and "type" not in window:
        there = {name: there[name] for name in window}
    return (
        same(expected.get("key"), actual["key"])
        and same(expected.get("value"), actual["value"])
        and expected.get("timestamp", actual["timestamp"]) == actual["timestamp"]
        and (window or None) == there
        and (expected.get("headers") or []) == actual.get("headers", [])
    )


def same(expected: Any, actual: Any) -> bool:
    """Whether two JSON values are equal: numbers by value, names of fields in any case."""
    match expected, actual:
        case dict(), dict():
            names = {name if name in actual else name.upper(): name for name in expected}
            return names.keys() == actual.keys() and all(
                same(expected[name], actual[found]) for found, name in names.items()
            )
        case list(), list():
            return _same_lists(expected, actual)
        case bool(), _:
            return expected is actual
        case ((int() | Decimal()), (int() | float() | Decimal())) if not isinstance(actual, bool):
            return float(expected) == float(actual) and (
                isinstance(actual, float) or Decimal(expected) == Decimal(actual)
            )
        case _:
            return bool(expected == actual) and type(expected) is type(actual)


def _same_lists(expected: Sequence[Any], actual: Sequence[Any]) -> bool:
    return len(expected) == len(actual) and all(map(same, expected, actual))

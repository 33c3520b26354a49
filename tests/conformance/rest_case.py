"""One case of the HTTP suite: statements and queries sent to a server, its answers compared."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import httpx

from millstream.model.clock import now_ms
from millstream.model.settings import EngineSettings
from millstream.service.engine import Engine
from millstream.service.execution import open_engine
from millstream_server.results.framing import KSQL, PROTOBUF
from tests.conformance.cases import Case
from tests.conformance.engine_case import IGNORED_PROPERTIES, append, make_topics
from tests.conformance.functions import functions
from tests.conformance.judge import StopError, contained
from tests.conformance.rest_compare import response_difference
from tests.served import served

PARTITIONS = 4
CONFIGURATION = {
    "auto.offset.reset": "earliest",
    "millstream.emit.final.forgetful": "true",
    "millstream.query.pull.extended.enabled": "false",
    "ksql.query.push.v2.enabled": "true",
}
"""How the suite's own runner is set up; what goes beyond ksqlDB's queries is switched off."""
TIMEOUT_S = 30.0
SETTINGS = EngineSettings(threads=1)


class FailedRequestError(Exception):
    """The server refused."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


@dataclass(slots=True)
class Talk:
    """A client of one server. `properties` go with each request."""

    client: httpx.Client
    properties: dict[str, Any]

    def statements(self, sql: str) -> list[dict[str, Any]]:
        """Send statements; their entities."""
        answer = self.client.post("/ksql", json=self._body(sql))
        if answer.status_code != 200:
            raise _failed(answer)
        found: list[dict[str, Any]] = _read(answer.text)
        return found

    def query(
        self, sql: str, media_type: str = KSQL, running: Any = lambda: None
    ) -> list[dict[str, Any]]:
        """Send a query; all its elements. `running` is called when its header is there."""
        headers = {"accept": media_type}
        found = ""
        with self.client.stream("POST", "/query", json=self._body(sql), headers=headers) as answer:
            if answer.status_code != 200:
                answer.read()
                raise _failed(answer)
            for number, piece in enumerate(answer.iter_text()):
                if number == 0:
                    running()
                found += piece
        rows: list[dict[str, Any]] = _read(found)
        for row in rows:
            if "errorMessage" in row:
                raise FailedRequestError(200, row["errorMessage"]["message"])
        return rows

    def _body(self, sql: str) -> dict[str, Any]:
        return {"ksql": sql, "streamsProperties": self.properties}


def _read(text: str) -> Any:
    return json.loads(text, parse_float=Decimal)


def _failed(answer: httpx.Response) -> FailedRequestError:
    return FailedRequestError(answer.status_code, answer.json()["message"])


def run_rest_case(case: Case) -> tuple[str, bool]:
    """Why the case failed ("" when it passed), and whether an expected message was seen."""
    engine = open_engine(":memory:", SETTINGS, now_ms, functions())
    try:
        make_topics(case, engine, PARTITIONS)
        engine.start()
        with (
            served(engine, CONFIGURATION) as door,
            httpx.Client(base_url=door.url, timeout=TIMEOUT_S, verify=False) as client,
        ):
            properties = {
                name: value
                for name, value in case.raw.get("properties", {}).items()
                if name not in IGNORED_PROPERTIES
            }
            return _judged(case, Talk(client, properties), engine)
    finally:
        engine.close()


def _judged(case: Case, talk: Talk, engine: Engine) -> tuple[str, bool]:
    try:
        responses = list(_responses(case, talk, engine))
    except FailedRequestError as failed:
        return _expected_error(case, failed)
    except StopError as stopped:
        return f"{stopped.phase}: {stopped}", False
    if case.expect == "error":
        return "accepted: an error was expected", False
    engine.drain()
    reason = contained(case, engine)
    wanted = case.raw.get("responses", [])
    for number, (expected, actual) in enumerate(zip(wanted, responses, strict=False)):
        reason = reason or response_difference(expected, actual, f"response {number}")
    if not reason and len(responses) < len(wanted):
        reason = f"mismatch: {len(responses)} responses, expected {len(wanted)}"
    return reason, False


def _responses(case: Case, talk: Talk, engine: Engine) -> Iterator[Any]:
    """The server's responses: to statements, to queries, to queries for protobuf."""
    texts = case.statements
    first = next(
        (i for i, text in enumerate(texts) if text.lstrip().upper().startswith("SELECT ")),
        len(texts),
    )
    if first:
        yield from talk.statements("\n".join(texts[:first]))
    conditions = case.raw.get("conditions") or {}
    feed = lambda: append(case.inputs, engine)  # noqa: E731
    if conditions.get("inputs_after_push_query_starts"):
        engine.drain()
        yield talk.query(texts[first], running=feed)
        return
    feed()
    engine.drain()
    for text in texts[first:]:
        yield talk.query(text)
    if conditions.get("repeat_queries_as_protobuf"):
        for text in texts[first:]:
            yield talk.query(text, PROTOBUF)


def _expected_error(case: Case, failed: FailedRequestError) -> tuple[str, bool]:
    if case.expect != "error":
        return f"refused: {failed.status} {failed.message}", False
    wanted = case.raw["error"]
    if failed.status != wanted.get("http_status", failed.status):
        return f"status {failed.status}, expected {wanted['http_status']}: {failed.message}", False
    return "", wanted.get("message", "") in failed.message

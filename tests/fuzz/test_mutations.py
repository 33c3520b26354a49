"""Each check of the fuzzing fails where it should: servers that do one thing wrong are found out by
the check that is for it, and one that does nothing wrong by none."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from millstream.query.session import Session
from millstream.service.execution import execute_script
from millstream_server.results.framing import KSQL
from tests.clients.places import need
from tests.fuzz.callers import CALLERS, Caller, Shop, shop
from tests.fuzz.run import CHECKS, fuzz

ANYBODY, _, STRANGER, UNKNOWN = CALLERS
REFUSAL = b'{"@type": "generic_error", "error_code": 40000, "message": "no"}'
REQUESTS = 22


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server answers to everything."""

    status: int = 400
    kind: str = KSQL
    body: bytes = REFUSAL


BLAMELESS = Answer()


def answering(
    answer: Answer, done: Callable[[Shop], None] = lambda served: None
) -> Callable[[Caller], AbstractContextManager[Shop]]:
    """Serves one answer, and does something at each request."""

    @contextmanager
    def serving(caller: Caller) -> Iterator[Shop]:
        with shop(guarded=False) as served:

            class One(BaseHTTPRequestHandler):
                protocol_version = "HTTP/1.1"
                wbufsize = -1
                """Sent at once: two packets would wait for each other."""

                def _answer(self) -> None:
                    self.rfile.read(int(self.headers.get("content-length") or 0))
                    done(served)
                    self.send_response(answer.status)
                    self.send_header("content-type", answer.kind)
                    self.send_header("content-length", str(len(answer.body)))
                    self.end_headers()
                    self.wfile.write(answer.body)

                do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = _answer  # noqa: N815
                do_HEAD = do_TRACE = do_QUERY = _answer  # noqa: N815

                def log_message(self, format: str, *arguments: object) -> None:
                    pass

            server = ThreadingHTTPServer(("127.0.0.1", 0), One)
            thread = threading.Thread(target=server.serve_forever, daemon=True)
            thread.start()
            try:
                yield replace(served, url=f"http://127.0.0.1:{server.server_address[1]}")
            finally:
                server.shutdown()
                server.server_close()
                thread.join()

    return serving


WRONG = [
    ("not_a_server_error", Answer(500), ANYBODY),
    ("status_code_conformance", Answer(418), ANYBODY),
    ("content_type_conformance", Answer(400, "text/html", b"<p>no</p>"), ANYBODY),
    ("response_schema_conformance", Answer(400, KSQL, b'{"message": 5}'), ANYBODY),
    ("nobody_is_let_in", Answer(200, KSQL, b"[]"), STRANGER),
    ("nobody_is_let_in", Answer(200, KSQL, b"[]"), UNKNOWN),
]


@pytest.mark.slow
@pytest.mark.parametrize(("check", "answer", "caller"), WRONG)
def test_what_is_wrong_is_found_by_its_check(check: str, answer: Answer, caller: Caller) -> None:
    need("schemathesis")
    assert not fuzz(caller, REQUESTS, 0, serving=answering(answer), checks=[check])


@pytest.mark.slow
@pytest.mark.parametrize("caller", [ANYBODY, STRANGER, UNKNOWN])
def test_what_is_not_wrong_is_found_by_none(caller: Caller) -> None:
    need("schemathesis")
    assert fuzz(caller, REQUESTS, 0, serving=answering(BLAMELESS))


@pytest.mark.slow
def test_a_change_without_permission_is_found() -> None:
    need("schemathesis")

    def change(served: Shop) -> None:
        list(execute_script(served.engine, "CREATE TYPE IF NOT EXISTS x AS INT;", Session()))

    assert not fuzz(UNKNOWN, REQUESTS, 0, serving=answering(BLAMELESS, change))


def test_each_check_has_a_server_that_it_finds_out() -> None:
    assert {check for check, _, _ in WRONG} == set(CHECKS)

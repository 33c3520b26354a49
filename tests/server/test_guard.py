"""The calls of a guard, and the responses to its refusals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from millstream.catalog.catalog import Catalog
from millstream.model.clock import now_ms
from millstream.model.settings import EngineSettings
from millstream.query.session import Session
from millstream.scripts.text import ParsedStatement
from millstream.service.execution import open_engine
from millstream_parser import statements as s
from millstream_server.auth.access import Access
from millstream_server.auth.guard import Scope
from millstream_server.auth.principal import Principal
from millstream_server.auth.visible import VisibleCatalog
from millstream_server.failures import FORBIDDEN_ON_KAFKA, UNAUTHENTICATED, RefusedError
from tests.served import served
from tests.server.conftest import RunningServer


class Porter:
    """Accepts clients that send a name; no one may drop anything."""

    def __init__(self) -> None:
        self.inside: Counter[str] = Counter()
        self.seen: list[str] = []
        self.done: list[str] = []

    def check_source(self, scope: Scope) -> None:
        """Any will do."""

    async def authenticate(self, scope: Scope) -> Principal:
        name = dict(scope["headers"]).get(b"x-name", b"").decode()
        if not name:
            headers = {"www-authenticate": 'Basic realm="millstream"'}
            raise RefusedError(UNAUTHENTICATED, "Who is it?", headers=headers)
        return Principal(name)

    def authorise(self, principal: Principal, statement: ParsedStatement, session: Session) -> None:
        self.seen.append(f"{principal.name}: {statement.text}")
        if isinstance(statement.statement, s.DropSource):
            raise RefusedError(FORBIDDEN_ON_KAFKA, "Not that", statement.text)

    def enter(self, principal: Principal, path: str) -> None:
        self.inside[path] += 1

    def record(self, principal: Principal, statement: ParsedStatement) -> None:
        self.done.append(statement.text)

    def sight(self, principal: Principal, catalog: Catalog) -> VisibleCatalog:
        return VisibleCatalog(catalog, Access(open=True), principal)

    def leave(self, principal: Principal, path: str) -> None:
        self.inside[path] -= 1


@pytest.fixture
def guarded() -> Iterator[tuple[RunningServer, Porter]]:
    engine = open_engine(":memory:", EngineSettings(threads=1), now_ms)
    engine.start()
    porter = Porter()
    with served(engine, guard=porter) as found, ExitStack() as stack:
        yield RunningServer(engine, found, stack), porter
    engine.close()


@pytest.mark.parametrize("path", ["/info", "/ksql", "/query-stream", "/metrics", "/openapi.json"])
def test_unknown_users_are_refused(guarded: tuple[RunningServer, Porter], path: str) -> None:
    door, porter = guarded
    answer = door.http.request("POST" if "s" in path[1:5] else "GET", path)
    if answer.status_code == 405:
        answer = door.http.post(path)
    assert (answer.status_code, answer.json()["error_code"]) == (401, 40100)
    assert answer.headers["www-authenticate"].startswith("Basic")
    assert not porter.inside


def test_statements_are_authorised_before_any_is_executed(
    guarded: tuple[RunningServer, Porter],
) -> None:
    door, porter = guarded
    text = "CREATE TYPE t AS INT; DROP STREAM x;"
    answer = door.http.post("/ksql", json={"ksql": text}, headers={"x-name": "eve"})
    assert (answer.status_code, answer.json()["statementText"]) == (403, "DROP STREAM x;")
    assert porter.seen == ["eve: CREATE TYPE t AS INT;", "eve: DROP STREAM x;"]
    assert not door.engine.catalog.types and not porter.done
    assert porter.inside["/ksql"] == 0


def test_queries_are_authorised(guarded: tuple[RunningServer, Porter]) -> None:
    door, porter = guarded
    query = {"sql": "SELECT 1 FROM x EMIT CHANGES;"}
    answer = door.http.post("/query-stream", json=query, headers={"x-name": "eve"})
    assert answer.status_code == 400
    assert porter.seen == ["eve: SELECT 1 FROM x EMIT CHANGES;"]
    assert porter.inside["/query-stream"] == 0

"""Refusals in the format of the API: an HTTP status, a code and a JSON object."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from millstream.model.errors import (
    ConflictError,
    MillstreamError,
    RecordError,
    StatementError,
    UnavailableError,
)
from millstream.model.nearest import Suggested

MALFORMED = 40000
"""The request is malformed, or a property is invalid."""
BAD_STATEMENT = 40001
QUERY_ELSEWHERE = 40002
"""A query was sent to the endpoint for statements."""
TOO_MANY_QUERIES = 40003
NEEDS_HTTP2 = 40004
INTERNAL_ONLY = 40005
"""An endpoint for other servers, which have a listener of their own."""
UNAUTHENTICATED = 40100
FORBIDDEN = 40300
FORBIDDEN_ON_KAFKA = 40301
NOT_FOUND = 40400
UNACCEPTABLE = 40600
TOO_LARGE = 41300
TOO_SLOW = 40800
CONNECTOR_EXISTS = 40900
ASSERT_FAILED = 41700
MISDIRECTED = 42100
HEADERS_TOO_LARGE = 43100
NO_REGISTRY = 42801
TOO_MANY = 42900
SERVER_ERROR = 50000
UNAVAILABLE = 50300
COMMAND_TIMEOUT = 50301
STARTING = 50302
STOPPING = 50303
TERMINATED = 50304
_OF_ENGINE = {
    "E-ASSERT": ASSERT_FAILED,
    "E-CONNECTOR-EXISTS": CONNECTOR_EXISTS,
    "E-NOT-READY": STARTING,
    "E-NO-REGISTRY": NO_REGISTRY,
    "E-SLOW-CONSUMER": TOO_MANY,
}
RETRY_SECONDS = 1


def status_of(code: int) -> int:
    """The HTTP status of an error code."""
    return code // 100


@dataclass(slots=True)
class RefusedError(Exception):
    """A request that gets an error response. `statement` is the text of the refused statement,
    `entities` are the results of those before it; `code` determines the status."""

    code: int
    message: str
    statement: str | None = None
    entities: Sequence[Mapping[str, Any]] = ()
    headers: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.message

    @property
    def status(self) -> int:
        """The HTTP status."""
        return status_of(self.code)

    def entity(self) -> dict[str, Any]:
        """The JSON object."""
        if self.statement is None:
            return {
                "@type": "generic_error",
                "error_code": self.code,
                "message": self.message,
            }
        return {
            "@type": "statement_error",
            "error_code": self.code,
            "message": self.message,
            "statementText": self.statement,
            "entities": list(self.entities),
        }


class RevokedError(MillstreamError):
    """An ongoing operation is no longer allowed; `refused` is the response that it would get
    now."""

    code = "E-REVOKED"

    def __init__(self, refused: RefusedError) -> None:
        super().__init__(refused.message)
        self.refused = refused


def refusal(
    error: MillstreamError,
    statement: str | None,
    entities: Sequence[Mapping[str, Any]] = (),
    seen: Callable[[Suggested], bool] = lambda hint: False,
) -> RefusedError:
    """The response for an error of the engine to this statement, or to none. `seen`: whether the
    client may see the name in a hint."""
    if isinstance(error, RevokedError):
        return error.refused
    if isinstance(error.hint, Suggested) and not seen(error.hint):
        error.hint = error.hint.otherwise
    code = _OF_ENGINE.get(error.code, SERVER_ERROR)
    if error.code not in _OF_ENGINE:
        match error:
            case StatementError() | ConflictError() | RecordError():
                code = BAD_STATEMENT
            case UnavailableError():
                code = UNAVAILABLE
    headers = {"retry-after": str(RETRY_SECONDS)} if status_of(code) == 503 else {}
    return RefusedError(code, str(error), statement, entities, headers)


def unexpected(error: BaseException) -> RefusedError:
    """The response for an internal error, which reveals only its kind."""
    return RefusedError(SERVER_ERROR, f"The server failed ({type(error).__name__}); see its log")

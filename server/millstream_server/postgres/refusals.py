"""Errors as PostgreSQL's clients know them: a code of five characters, a message, a hint."""

from __future__ import annotations

from dataclasses import dataclass

from millstream_server.failures import (
    ASSERT_FAILED,
    BAD_STATEMENT,
    COMMAND_TIMEOUT,
    FORBIDDEN,
    FORBIDDEN_ON_KAFKA,
    NOT_FOUND,
    STARTING,
    STOPPING,
    TERMINATED,
    TOO_LARGE,
    TOO_MANY,
    TOO_MANY_QUERIES,
    UNAUTHENTICATED,
    UNAVAILABLE,
    RefusedError,
)

SYNTAX_ERROR, CANCELED, INTERNAL, SHUTDOWN = "42601", "57014", "XX000", "57P01"
FAILED_TRANSACTION, PROTOCOL_VIOLATION, NOT_SUPPORTED = "25P02", "08P01", "0A000"
_CODES = {
    BAD_STATEMENT: "42000",
    UNAUTHENTICATED: "28P01",
    FORBIDDEN: "42501",
    FORBIDDEN_ON_KAFKA: "42501",
    NOT_FOUND: "42704",
    TOO_LARGE: "54000",
    TOO_MANY: "53400",
    TOO_MANY_QUERIES: "53400",
    ASSERT_FAILED: "P0004",
    UNAVAILABLE: "58000",
    COMMAND_TIMEOUT: "57014",
    STARTING: "57P03",
    STOPPING: SHUTDOWN,
    TERMINATED: SHUTDOWN,
}
_OF_STATUS = {400: "42000", 401: "28P01", 403: "42501", 404: "42704", 429: "53400"}


@dataclass(slots=True)
class PgError(Exception):
    """An error of a statement; the session goes on."""

    message: str
    hint: str = ""
    code: str = SYNTAX_ERROR
    detail: str = ""

    def __str__(self) -> str:
        return self.message

    def fields(self, severity: str = "ERROR") -> dict[str, str]:
        """The fields of its message."""
        given = {"S": severity, "V": severity, "C": self.code, "M": self.message}
        rest = {"D": self.detail, "H": self.hint}
        return given | {name: value for name, value in rest.items() if value}


def of_refusal(error: RefusedError) -> PgError:
    """A refusal of the server. The lines after the first, which show where, are the detail."""
    first, _, rest = error.message.partition("\n")
    code = _CODES.get(error.code) or _OF_STATUS.get(error.status, INTERNAL)
    return PgError(first, code=code, detail=rest)

"""Refusals with the codes of Confluent's registry, which its clients look at."""

from __future__ import annotations

from millstream.model.errors import MillstreamError, StatementError, UnavailableError
from millstream.schemas.wordings import INCOMPATIBLE as SCHEMA_INCOMPATIBLE
from millstream.schemas.wordings import INVALID as SCHEMA_INVALID
from millstream_server.failures import SERVER_ERROR, UNAVAILABLE, RefusedError

SUBJECT_NOT_FOUND = 40401
VERSION_NOT_FOUND = 40402
SCHEMA_NOT_FOUND = 40403
SUBJECT_NOT_SOFT_DELETED = 40405
VERSION_NOT_SOFT_DELETED = 40407
NO_LEVEL = 40408
INCOMPATIBLE = 40900
INVALID_SCHEMA = 42201
INVALID_VERSION = 42202
INVALID_LEVEL = 42203
REFERENCED = 42206


def no_subject(subject: str) -> RefusedError:
    """There is no such subject."""
    return RefusedError(SUBJECT_NOT_FOUND, f"Subject '{subject}' not found.")


def no_version(version: object) -> RefusedError:
    """The subject has no such version."""
    return RefusedError(VERSION_NOT_FOUND, f"Version {version} not found.")


def no_schema() -> RefusedError:
    """There is no such schema."""
    return RefusedError(SCHEMA_NOT_FOUND, "Schema not found")


def refusal(error: MillstreamError) -> RefusedError:
    """The response for an error of the registry."""
    match error:
        case StatementError() if error.code == SCHEMA_INCOMPATIBLE:
            code = INCOMPATIBLE
        case StatementError() if error.code == SCHEMA_INVALID or error.code == StatementError.code:
            code = INVALID_SCHEMA
        case UnavailableError():
            code = UNAVAILABLE
        case _:
            code = SERVER_ERROR
    return RefusedError(code, str(error))

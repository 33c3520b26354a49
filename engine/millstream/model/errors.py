"""Every error the engine raises, classified by the party that must act on it.

```
MillstreamError
├── StatementError     the author of the SQL (HTTP 400)
│   └── SyntaxFailure  … whose text does not parse
├── ConflictError      a concurrent or contradicting change (409)
├── RecordError        the owner of the data: goes to the processing log, not to the client
├── UnavailableError   nobody: try again (503)
├── FencedError        the runtime: somebody newer owns this identity
└── CorruptionError    the runtime: durable bytes are not what was written
```
The one room that uses a library translates its exceptions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """A position in a text: 1-based line and column, and the 0-based half-open character range."""

    line: int
    column: int
    start: int
    end: int


class MillstreamError(Exception):
    """An error. The message says what was attempted and why it failed. `code` is stable API; `hint`
    says what to do about it; `parameters` are those of its template."""

    code = "E-BUG"

    def __init__(
        self,
        message: str,
        *,
        detail: str = "",
        hint: str = "",
        span: Span | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail
        self.hint = hint
        self.span = span
        self.parameters: Mapping[str, object] = {}
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        return "\n".join(part for part in (self.message, self.detail, self.hint) if part)


class StatementError(MillstreamError):
    """The statement cannot be accepted; nothing was changed."""

    code = "E-STATEMENT"


def prefixed(start: str, error: StatementError) -> StatementError:
    """The same error with a prefix that tells where it arose."""
    made = StatementError(
        start + error.message, detail=error.detail, hint=error.hint, span=error.span
    )
    made.parameters = error.parameters
    return made


class ConflictError(MillstreamError):
    """The object exists already, or changed since it was read."""

    code = "E-CONFLICT"


class RecordError(MillstreamError):
    """One record cannot be used; only that record is affected."""

    code = "E-RECORD"


class UnavailableError(MillstreamError):
    """A resource is missing for now: a full disk, a stopped broker, a restoring partition."""

    code = "E-UNAVAILABLE"


class FencedError(MillstreamError):
    """A newer owner of the same identity exists; this one must stop writing."""

    code = "E-FENCED"


class CorruptionError(MillstreamError):
    """Stored bytes of ours that are corrupt."""

    code = "E-INTERNAL-CORRUPT"


KINDS = (
    StatementError,
    ConflictError,
    RecordError,
    UnavailableError,
    FencedError,
    CorruptionError,
)
"""The errors that processes exchange by name."""

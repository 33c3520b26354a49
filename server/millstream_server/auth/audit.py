"""The audit log: one line of JSON for each event, without secrets and without user data.

Every character that is not printable ASCII is escaped, so that no text can begin a new line or
control a terminal. Literals in statements are masked.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping
from enum import Enum

from millstream_server.auth.principal import Principal, Refusal
from millstream_server.bootstrap.secret import MASK, Secret, is_secret_key

TEXT_MAX = 2_000
FIELDS_MAX = 50
_TOKENS = re.compile(
    r"--[^\n]*|/\*.*?(?:\*/|\Z)"  # comments
    r"|'(?:[^']|'')*(?:'|\Z)"  # texts, closed or not
    r"|\$\$.*?(?:\$\$|\Z)"
    r'|"(?:[^"]|"")*(?:"|\Z)|`(?:[^`]|``)*(?:`|\Z)'  # names
    r"|[A-Za-z_][A-Za-z_0-9]*"
    r"|(?:\d[\w.]*|\.\d\w*)(?:(?<=[eE])[+-]\d+)?"  # numbers
    r"|\s+|.",
    re.DOTALL,
)


class Event(Enum):
    """The kinds of events."""

    REFUSED = "refused"
    STATEMENT = "statement"
    ADMIN = "admin"
    STARTED = "started"
    STOPPED = "stopped"


class Audit:
    """The audit log. Thread-safe; each line is written atomically."""

    def __init__(self, write: Callable[[str], object], clock: Callable[[], float]) -> None:
        """`write` gets a line with its line end; `clock`: epoch seconds."""
        self._write, self._clock = write, clock
        self._lock = threading.Lock()

    def event(
        self,
        event: Event,
        principal: Principal | None = None,
        **fields: object,
    ) -> None:
        """Log an event. A field `statement` is masked; fields have at most some kilobytes."""
        entry: dict[str, object] = {"time": round(self._clock(), 3), "event": event.value}
        if principal is not None:
            entry |= {"principal": principal.name, "method": principal.method}
        entry |= fields
        line = json.dumps(_clean(entry), ensure_ascii=True, allow_nan=False)
        with self._lock:
            # ASCII has one more control character than JSON escapes.
            self._write(line.replace("\x7f", "\\u007f") + "\n")

    def refused(
        self,
        refusal: Refusal,
        principal: Principal | None = None,
        **fields: object,
    ) -> None:
        """Log a refusal, with the reason that the client does not get."""
        self.event(
            Event.REFUSED,
            principal,
            status=refusal.status,
            code=refusal.code,
            reason=refusal.reason or refusal.message,
            **fields,
        )


def masked(statement: str) -> str:
    """A statement with its literals masked and its comments left out, whether it parses or not.
    Names stay. Long statements are cut."""
    cut = statement[:TEXT_MAX]
    text = "".join(_masked(token) for token in _TOKENS.findall(cut))
    return " ".join(text.split()) + (" …" if len(statement) > TEXT_MAX else "")


def _masked(token: str) -> str:
    if token.startswith(("--", "/*")):
        return " "
    if token.startswith(("'", "$$")):
        return f"'{MASK}'"
    if token[0].isdigit() or (token[0] == "." and len(token) > 1):
        return "?"
    if token[0] in '"`' and (len(token) == 1 or token[-1] != token[0]):
        return MASK
    return token


def _clean(value: object, depth: int = 4) -> object:
    """A value that JSON can represent, cut and redacted."""
    match value:
        case None | bool() | int():
            return value
        case float():
            return value if value - value == 0 else str(value)
        case Mapping() if depth:
            return {
                str(k)[:200]: _field(str(k), v, depth) for k, v in [*value.items()][:FIELDS_MAX]
            }
        case list() | tuple() | set() | frozenset() if depth:
            return [_clean(item, depth - 1) for item in [*value][:FIELDS_MAX]]
        case Secret():
            return MASK
        case _:
            return str(value)[:TEXT_MAX]


def _field(name: str, value: object, depth: int) -> object:
    if is_secret_key(name):
        return MASK
    if name == "statement":
        return masked(str(value))
    return _clean(value, depth - 1)

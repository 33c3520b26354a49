"""Authorisation: rules, and the decision on a set of needs. What no rule allows is refused.

A line of the rules' file is `allow|deny role:<name>|user:<name>|everyone OPERATION,… kind:pattern`:

    allow role:analyst READ topic:orders*
    allow user:loader WRITE,DESCRIBE topic:orders_raw
    deny  everyone ALL topic:salaries

`*` in a pattern matches any text. A deny overrides every allow. Only patterns that begin with their
prefix match internal topics.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from millstream.model.errors import StatementError
from millstream.model.settings import EngineSettings
from millstream_server.auth.needs import Kind, Need, Operation
from millstream_server.auth.principal import Principal, Refusal, forbidden
from millstream_server.bootstrap.secret import numbered
from millstream_server.failures import FORBIDDEN_ON_KAFKA

ALL = frozenset(Operation)
_IMPLIED = {Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.OPERATE}}
_LINE = re.compile(
    r"(allow|deny)\s+(everyone|(?:role|user):\S+)\s+([A-Za-z,]+)\s+([a-z]+):(.*)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Rule:
    """One line. `who` is "everyone", "role:…" or "user:…"."""

    allow: bool
    who: str
    operations: frozenset[Operation]
    kind: Kind
    pattern: str

    def covers(self, need: Need) -> bool:
        """Whether the rule matches this need. A rule for read, write or operate also matches
        describe."""
        if self.kind is not need.kind:
            return False
        implied = _IMPLIED.get(need.operation, set()) if self.allow else set()
        if self.operations.isdisjoint({need.operation} | implied):
            return False
        return matches(self.pattern, need.name)


@dataclass(frozen=True, slots=True)
class Access:
    """The rules in force. `open`: authentication is off, and everyone may do everything."""

    rules: tuple[Rule, ...] = ()
    admins: frozenset[str] = frozenset({"admin"})
    is_internal: Callable[[str], bool] = EngineSettings().is_internal
    """Whether a topic, or a pattern of topics, is internal to the engine."""
    open: bool = False

    def allows(self, principal: Principal, need: Need) -> bool:
        """Whether a principal may do this."""
        if need.kind is Kind.FILE:
            return False
        internal = need.kind is Kind.TOPIC and self.is_internal(need.name)
        if internal and need.operation not in (Operation.READ, Operation.DESCRIBE):
            # They belong to the engine: after a change by a user, they would no longer record what
            # the engine did.
            return False
        if self.open or not principal.roles.isdisjoint(self.admins):
            return True
        who = {"everyone", f"user:{principal.name}", *(f"role:{r}" for r in principal.roles)}
        about = [rule for rule in self.rules if rule.who in who and rule.covers(need)]
        if internal:
            about = [r for r in about if not r.allow or self.is_internal(r.pattern)]
        return bool(about) and all(rule.allow for rule in about)


def authorise(access: Access, principal: Principal, needs: Iterable[Need]) -> Refusal | None:
    """None if the principal may do all of it; else the refusal of the first one by name."""
    missing = sorted((n for n in needs if not access.allows(principal, n)), key=str)
    if not missing:
        return None
    first = missing[0]
    reason = f"{principal.name} lacks {', '.join(map(str, missing))}"
    if first.kind is Kind.SERVICE:
        return forbidden(
            f"You may not {first.operation.value.lower()} this service.",
            "Ask the operator for a rule or a role.",
            reason=reason,
        )
    if first.kind is Kind.FILE:
        message, hint = "Statements do not read files of the server.", "Send their content."
    else:
        verb = first.operation.value.capitalize()
        named = f"{first.kind.value.capitalize()}: [{first.name}]"
        message = f"Authorization denied to {verb} on {named}."
        hint = "Ask the operator for a rule in authorization.rules.file."
    return Refusal(FORBIDDEN_ON_KAFKA, "E-DENIED", message, hint, reason=reason)


def matches(pattern: str, name: str) -> bool:
    """Whether a name matches the pattern. Takes time proportional to both lengths."""
    first, *parts = pattern.split("*")
    if not parts:
        return name == pattern
    *middle, last = parts
    if not name.startswith(first) or len(name) < len(first) + len(last) or not name.endswith(last):
        return False
    at, end = len(first), len(name) - len(last)
    for part in middle:
        found = name.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True


def read_rules(text: str) -> tuple[Rule, ...]:
    """The rules of a file's text; raises StatementError for an invalid line."""
    return tuple(_rule(line, number) for number, line in numbered(text))


def _rule(line: str, number: int) -> Rule:
    found = _LINE.fullmatch(line)
    try:
        if found is None:
            raise ValueError
        word, who, operations, kind, pattern = found.groups()
        if not pattern.strip():
            raise ValueError
        return Rule(
            word.lower() == "allow", who, _operations(operations), Kind(kind), pattern.strip()
        )
    except ValueError:
        raise StatementError(
            f"Line {number} of the rules' file is none: '{line}'.",
            hint="Write: allow role:analyst READ topic:orders*. Operations: ALL, "
            + ", ".join(operation.value for operation in Operation),
            code="E-CONFIG",
        ) from None


def _operations(text: str) -> frozenset[Operation]:
    if text.upper() == "ALL":
        return ALL
    return frozenset(Operation(word.upper()) for word in text.split(","))

"""A second, simple implementation of authorisation, to compare with the real one."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass

Wanted = tuple[str, str, str]
"""(operation, kind, name)"""


@dataclass(frozen=True)
class Line:
    """A rule, as its words."""

    verdict: str
    who: str
    operations: tuple[str, ...]
    kind: str
    pattern: str

    def text(self) -> str:
        return f"{self.verdict} {self.who} {','.join(self.operations)} {self.kind}:{self.pattern}"


def permitted(lines: list[Line], user: str, roles: set[str], wanted: set[Wanted]) -> bool:
    return all(one_permitted(lines, user, roles, *one) for one in wanted)


def one_permitted(
    lines: list[Line], user: str, roles: set[str], operation: str, kind: str, name: str
) -> bool:
    internal = kind == "topic" and name.startswith("_millstream_")
    if internal and operation not in ("READ", "DESCRIBE"):
        return False
    if "admin" in roles:
        return True
    allowed = False
    for line in lines:
        me = line.who in ("everyone", f"user:{user}") or (
            line.who[5:] in roles and line.who[:5] == "role:"
        )
        if not me or line.kind != kind or not fnmatch.fnmatchcase(name, line.pattern):
            continue
        granted = set(line.operations)
        if "ALL" in granted:
            granted = {operation}
        if line.verdict == "deny":
            if operation in granted:
                return False
            continue
        if internal and not line.pattern.startswith("_millstream_"):
            continue
        if operation == "DESCRIBE" and granted & {"READ", "WRITE", "OPERATE"}:
            allowed = True
        allowed = allowed or operation in granted
    return allowed

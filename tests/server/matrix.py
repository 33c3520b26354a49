"""Every endpoint times every kind of caller: what the answer must be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

Headers = list[tuple[bytes, bytes]]


@dataclass(frozen=True)
class Attempt:
    """One request. `status`: 401 or 403 exactly; 0 for anything but these two."""

    method: str
    path: str
    caller: str
    headers: Headers
    status: int


def attempts(
    routes: list[tuple[str, str]],
    callers: dict[str, Headers],
    free: set[tuple[str, str]],
) -> Iterator[Attempt]:
    """`callers`: headers for none, bad, expired, other (known, but granted nothing) and admin;
    `free`: routes that whoever is known may call."""
    for method, path in routes:
        for caller, headers in callers.items():
            status = 401
            if caller == "admin" or (caller == "other" and (method, path) in free):
                status = 0
            elif caller == "other":
                status = 403
            yield Attempt(method, path, caller, headers, status)

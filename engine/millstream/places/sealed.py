"""JSON files with a version and a checksum of their own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from millstream.model.errors import UnavailableError


def sealed(kind: str, version: int, body: Mapping[str, Any]) -> bytes:
    """The content of a file of a kind ("backup") and version that holds `body`."""
    whole = {"format": version, "sha256": _digest(body), kind: body}
    return json.dumps(whole, sort_keys=True, indent=1).encode()


def unsealed(kind: str, version: int, name: str, content: bytes, *, hint: str) -> dict[str, Any]:
    """The body of a file. Raises ValueError, KeyError, TypeError or RecursionError if it is
    damaged, UnavailableError (E-VERSION), with a hint, if another version wrote it."""
    whole = json.loads(content)
    found, body = whole["format"], whole[kind]
    if found != version:
        raise UnavailableError(
            f"The {kind} '{name}' has format {found}; this version of Millstream reads format"
            f" {version}.",
            hint=hint,
            code="E-VERSION",
        )
    if whole["sha256"] != _digest(body):
        raise ValueError("its checksum is another one")
    return dict(body)


def _digest(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()

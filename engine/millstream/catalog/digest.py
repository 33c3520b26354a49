"""A digest that is equal for two catalogs if and only if their contents are."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from millstream.catalog.catalog import Catalog


def catalog_digest(catalog: Catalog, paused: Collection[str] = ()) -> str:
    """The digest of the catalog and the ids of the paused queries: 32 hexadecimal digits.

    The order of creation does not count. Versions of the engine that store more about a source
    return other digests.
    """
    known = {"catalog": _plain(catalog), "paused": sorted(paused)}
    text = json.dumps(known, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.name
    if is_dataclass(value) and not isinstance(value, type):
        plain = {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
        return {"": type(value).__name__, **plain}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, frozenset | set):
        return sorted(str(item) for item in value)
    return value if isinstance(value, str | int | float | bool | None) else repr(value)

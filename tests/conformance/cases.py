"""Conformance cases as data: one JSON line each, in the form described beside them."""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Case:
    """One runnable case; `raw` is the whole line."""

    id: str
    area: str
    tier: int
    expect: str
    raw: dict[str, Any]

    @property
    def statements(self) -> list[str]:
        """The SQL of the case, in order."""
        return list(self.raw["statements"])

    @property
    def inputs(self) -> list[Record]:
        """Records to feed, in file order."""
        return list(self.raw["inputs"])

    @property
    def outputs(self) -> list[Record]:
        """Records to expect."""
        return list(self.raw["outputs"])

    @property
    def properties(self) -> dict[str, str]:
        """Session properties."""
        return {name: str(value) for name, value in self.raw.get("properties", {}).items()}

    @property
    def plain(self) -> bool:
        """Whether the case needs neither the HTTP interface nor a schema registry."""
        return not self.rest and not self.raw["needs_registry"]

    @property
    def served(self) -> bool:
        """Whether the case is run over HTTP, and needs no schema registry."""
        return self.rest and not self.raw["needs_registry"]

    @property
    def rest(self) -> bool:
        """Whether the case is run over HTTP."""
        return bool(self.raw["suite"] == "rest")


def load(folder: Path, only: str | None = None, tier: int | None = None) -> Iterator[Case]:
    """The cases of a folder, by file and line; `only` is a glob on ids."""
    for path in sorted(folder.glob("*.jsonl")):
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                raw = json.loads(line, parse_float=Decimal)
                case = Case(raw["id"], raw["file"], raw["tier"], raw["expect"], raw)
                if only is not None and not fnmatch.fnmatchcase(case.id, only):
                    continue
                if tier is None or case.tier == tier:
                    yield case


def beyond_the_engine(case: Case) -> str | None:
    """Why a case cannot be run on an engine alone."""
    return "unsupported: the HTTP interface" if case.rest else unsupported(case)


def unsupported(case: Case) -> str | None:
    """Why the engine does not run this case yet; it counts as failed."""
    del case
    return None

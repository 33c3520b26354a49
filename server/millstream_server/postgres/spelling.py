"""Names in two ways of writing: PostgreSQL's clients fold to lower case, the dialect to upper case.

A name without lower-case letters is shown in lower case, so that what a client was shown can be
written without quotes. A name between double quotes is first what it says; if nothing has that name
and something has it in upper case, it is that one. Backquotes are the dialect's own, and exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from millstream.catalog.catalog import Catalog
from millstream.catalog.rules import PSEUDO_COLUMNS
from millstream.catalog.source import Source
from millstream.cluster.scatter_gather import pull_schema
from millstream_parser.lexemes import Lexeme, LexemeKind, lexemes
from millstream_server.auth.visible import VisibleCatalog

SCHEMA = "public"


@dataclass(frozen=True, slots=True)
class Spelling:
    """The names of the sources that a client may see, and of their columns."""

    names: frozenset[str]

    @staticmethod
    def of(sources: Sequence[Source]) -> Spelling:
        """The spelling for these sources."""
        columns = {name for source in sources for name in pull_schema(source).names}
        names = {source.name for source in sources}
        return Spelling(frozenset(names | columns | {*PSEUDO_COLUMNS}))

    def shown(self, name: str) -> str:
        """A name as clients see it."""
        folded = name.lower()
        if name != name.upper() or folded in self.names or folded.upper() != name:
            return name
        return folded

    def meant(self, written: str) -> str:
        """The name that a client means by one between double quotes."""
        folded = written.upper()
        known = written in self.names or folded not in self.names
        return written if known or written != written.lower() else folded

    def meant_name(self, part: Lexeme) -> str:
        """The name that a word, or a name in quotes, stands for."""
        if part.kind is not LexemeKind.QUOTED:
            return part.text.upper()
        return self.meant(part.decoded) if part.text[0] == '"' else part.decoded

    def in_dialect(self, text: str, database: str) -> str:
        """A statement with the names of the dialect, and without the schema in front of them. Every
        other character keeps its place."""
        if '"' not in text and SCHEMA not in text.lower():
            return text
        found = list(text)
        for start, end, new in self._changes(list(lexemes(text)), database):
            found[start:end] = new
        return "".join(found)

    def _changes(self, parts: Sequence[Lexeme], database: str) -> Iterator[tuple[int, int, str]]:
        for number, part in enumerate(parts):
            if _qualifies(parts, number, SCHEMA) or (
                _qualifies(parts, number, database) and _qualifies(parts, number + 2, SCHEMA)
            ):
                end = parts[number + 1].end
                yield part.start, end, " " * (end - part.start)
            elif part.kind is LexemeKind.QUOTED and part.closed and part.text[0] == '"':
                new = f'"{self.meant(part.decoded).replace(chr(34), chr(34) * 2)}"'
                if len(new) == len(part.text):
                    yield part.start, part.end, new


def _qualifies(parts: Sequence[Lexeme], number: int, name: str) -> bool:
    """Whether a lexeme is this name, with a dot and another name behind it."""
    if number + 2 >= len(parts) or parts[number + 1].text != ".":
        return False
    part, after = parts[number], parts[number + 2]
    kinds = (LexemeKind.WORD, LexemeKind.QUOTED)
    written = part.decoded.lower() if part.kind is LexemeKind.WORD else part.decoded
    return part.kind in kinds and after.kind in kinds and written == name


def visible_sources(sight: VisibleCatalog) -> list[Source]:
    """The streams and tables that a client may see, by name."""
    catalog: Catalog = sight.catalog
    return [source for name, source in sorted(catalog.every().items()) if sight.source(name)]

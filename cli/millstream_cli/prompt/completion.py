"""Completion candidates, as a function of text, cursor and names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from millstream.catalog.formats import USABLE
from millstream.catalog.properties import Form
from millstream.log.policy import SETTINGS
from millstream.model.properties import PROPERTIES
from millstream_cli.prompt.place import Place, follows, place, plain, sources_in
from millstream_cli.sessions.names import ColumnName, Names, SourceName, written
from millstream_grammar.expected import Expected
from millstream_grammar.grammar import Keyword, Lexical
from millstream_parser.lexemes import Lexeme, LexemeKind

FORMATS = tuple(f"'{name}'" for name in USABLE)
SKELETONS = {
    "cs": "CREATE STREAM s (id STRING KEY) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');",
    "ct": "CREATE TABLE t (id STRING PRIMARY KEY) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON');",
    "csas": "CREATE STREAM s AS SELECT * FROM ",
    "ctas": "CREATE TABLE t AS SELECT key, COUNT(*) AS n FROM s GROUP BY key",
    "ii": "INSERT INTO s SELECT * FROM ",
}
"""Abbreviations of statement templates."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A text that may replace the word before the cursor, and its description."""

    text: str
    about: str = ""


def candidates(text: str, cursor: int, names: Names) -> tuple[int, list[Candidate]]:
    """How many characters before the cursor a candidate replaces, and the candidates, the likely
    ones first. Keywords and plain names are lower case if the word is."""
    here = place(text, cursor)
    if here is None:
        return 0, []
    found: dict[str, Candidate] = {}
    if not here.before and here.prefix.lower() in SKELETONS:
        outline = Candidate(SKELETONS[here.prefix.lower()], "outline of a statement")
        found[outline.text] = outline
    for candidate in _all(here, names):
        if _begins(candidate.text, here.prefix):
            cased = _cased(candidate, here.prefix)
            found.setdefault(cased.text, cased)
    return len(here.prefix), list(found.values())


def _all(here: Place, names: Names) -> Iterator[Candidate]:
    allowed = follows(here.before)
    lexical = [item for item in allowed if isinstance(item.item, Lexical)]
    keywords = {item.item.text for item in allowed if isinstance(item.item, Keyword)}
    if here.qualifier:
        yield from _of_alias(here, names)
        return
    for item in lexical:
        yield from _named(item, here, names)
    # Within a string there are no keywords, because no keyword begins with a quote.
    for keyword in sorted(keywords):
        if _begins(keyword, here.prefix):
            yield Candidate(_phrase(keyword, here))
    if not allowed:
        yield from _anything(here, names)


def _named(item: Expected, here: Place, names: Names) -> Iterator[Candidate]:
    """Candidates for a token with a value, by the grammar rule that contains it."""
    rules = item.rules
    match item.item:
        case Lexical("function"):
            yield from _functions(names)
        case Lexical("topic"):
            yield from (Candidate(f"'{topic}'", "topic") for topic in names.topics)
        case Lexical("property"):
            yield from _with_properties(here)
        case Lexical("string") if rules[0] in ("set", "unset", "alter_system"):
            yield from _settings(here)
        case Lexical("string") if rules[0] in ("topic_setting", "alter_topic"):
            yield from (Candidate(f"'{name}'", about) for name, about in SETTINGS.items())
        case Lexical("string") if rules[0] == "property_value":
            yield from _property_values(here, names)
        case Lexical("string") if rules[0] in ("copy", "run_script", "spool"):
            yield from _files(here.prefix)
        case Lexical("name") if rules[0] == "column" and "insert_values" not in rules:
            yield from _columns(here, names)
        case Lexical("name"):
            yield from _names(rules[0], here, names)


def _names(rule: str, here: Place, names: Names) -> Iterator[Candidate]:
    match rule:
        case "source" | "describe" | "copy" | "insert_values" | "insert_select":
            if here.last != "FUNCTION":
                yield from map(_source, names.sources.values())
            else:
                yield from (Candidate(name, about[0]) for name, about in names.functions.items())
        case "drop_source" | "alter_source" if here.last in ("STREAM", "TABLE", "EXISTS"):
            kinds = {word.upper for word in here.before} & {"STREAM", "TABLE"}
            yield from (_source(s) for s in names.sources.values() if s.kind in kinds)
        case "columns":
            yield from _of_source(names.sources.get(_name_after(here.before, "INTO")))
        case "terminate" | "pause" | "resume" | "explain" | "peek" if here.last != "AT":
            yield from (Candidate(written(name), "query") for name in names.queries)
        case "single_type" | "drop_type":
            yield from (Candidate(written(name), "type") for name in names.types)


def _source(source: SourceName) -> Candidate:
    columns = ", ".join(column.name for column in source.columns)
    return Candidate(written(source.name), f"{source.kind.lower()} ({columns})")


def _column(column: ColumnName, source: SourceName) -> Candidate:
    key = " key" if column.key else ""
    return Candidate(written(column.name), f"{column.type}{key} of {source.name}")


def _of_source(source: SourceName | None) -> Iterator[Candidate]:
    if source is not None:
        yield from (_column(column, source) for column in source.columns)


def _columns(here: Place, names: Names) -> Iterator[Candidate]:
    """The columns of the sources in FROM; of all sources if FROM is missing."""
    aliases = sources_in(here.statement)
    for source in dict.fromkeys(aliases.values()) or names.sources:
        yield from _of_source(names.sources.get(source))
    for alias in aliases:
        yield Candidate(written(alias) + ".", "columns of " + aliases[alias])


def _of_alias(here: Place, names: Names) -> Iterator[Candidate]:
    source = sources_in(here.statement).get(here.qualifier, here.qualifier)
    yield from _of_source(names.sources.get(source))


def _functions(names: Names) -> Iterator[Candidate]:
    for name, signatures in names.functions.items():
        more = f"  +{len(signatures) - 1}" if len(signatures) > 1 else ""
        yield Candidate(f"{name}(", signatures[0] + more)


def _with_properties(here: Place) -> Iterator[Candidate]:
    words = [word.upper for word in here.before]
    insert = words[:1] == ["INSERT"]
    if words[:1] == ["COPY"]:
        known: Iterable[str] = ("FORMAT", "NULLSTR", "ROWTIME")
    else:
        known = sorted(Form.INSERT.value if insert else Form.CREATE.value)
    yield from (Candidate(name, "property") for name in known if name not in words)


def _property_values(here: Place, names: Names) -> Iterator[Candidate]:
    name = here.before[-2].upper if len(here.before) > 1 else ""
    if name.endswith("FORMAT") and "TIMESTAMP" not in name:
        yield from (Candidate(text, "format") for text in FORMATS)
    elif name == "KAFKA_TOPIC":
        yield from (Candidate(f"'{topic}'", "topic") for topic in names.topics)
    elif name == "WINDOW_TYPE":
        yield from (Candidate(f"'{kind}'") for kind in ("TUMBLING", "HOPPING", "SESSION"))


def _files(prefix: str) -> Iterator[Candidate]:
    """The files and folders that begin with an incomplete path."""
    typed = prefix.removeprefix("'")
    folder, _, name = typed.rpartition("/")
    at = Path(typed[: len(typed) - len(name)]).expanduser()
    try:
        found = sorted(entry for entry in at.iterdir() if entry.name.startswith(name))
    except OSError:
        return
    for entry in found:
        if name.startswith(".") or not entry.name.startswith("."):
            end = "/" if entry.is_dir() else "'"
            start = f"{folder}/" if "/" in typed else ""
            yield Candidate(f"'{start}{entry.name}{end}")


def _settings(here: Place) -> Iterator[Candidate]:
    """Properties of the session, and their values behind `=`."""
    if here.last != "=":
        yield from (Candidate(f"'{item.name}'", item.description) for item in PROPERTIES)
        return
    wanted = here.before[-2].text.strip("'")
    for item in PROPERTIES:
        if item.name == wanted:
            values = ["true", "false"] if item.kind == "bool" else item.kind.split("|")
            for value in values if item.kind not in ("string", "int") else [item.default]:
                yield Candidate(f"'{value}'", "default" if value == item.default else "")


def _phrase(keyword: str, here: Place) -> str:
    """The keyword with the keywords that must follow it, as in GROUP BY."""
    words = [keyword]
    while len(words) < _PHRASE_MAX:
        following = {item.item for item in follows(here.before, *words)}
        match list(following):
            case [Keyword(text)]:
                words.append(text)
            case _:
                break
    return " ".join(words)


_PHRASE_MAX = 3


def _anything(here: Place, names: Names) -> Iterator[Candidate]:
    """Without help from the grammar: columns of the statement's sources, and functions."""
    yield from _columns(here, names)
    yield from map(_source, names.sources.values())
    yield from _functions(names)


def _begins(text: str, prefix: str) -> bool:
    if text[0] in "'`\"" and prefix and prefix[0] not in "'`\"":
        text = text[1:]
    return text.upper().startswith(prefix.upper()) and text != prefix


def _cased(candidate: Candidate, prefix: str) -> Candidate:
    text = candidate.text
    if prefix and prefix == prefix.lower() and prefix[0].isalpha() and text[0].isalpha():
        return Candidate(text.lower() if "'" not in text else text, candidate.about)
    return candidate


def _name_after(words: Sequence[Lexeme], keyword: str) -> str:
    """The name that follows a keyword, "" without one."""
    for word, following in pairwise(words):
        if word.upper == keyword and following.kind in (LexemeKind.WORD, LexemeKind.QUOTED):
            return plain(following)
    return ""

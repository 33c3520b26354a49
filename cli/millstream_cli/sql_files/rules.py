"""What is wrong with a script, found without executing it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from millstream.catalog.properties import Form, read_properties
from millstream.functions.user import UserFunction
from millstream.log.log import Topic
from millstream.model.clock import now_ms
from millstream.model.errors import MillstreamError
from millstream.model.settings import EngineSettings
from millstream.query.session import Session
from millstream.scripts.text import ParsedStatement, parse_text, split_text, substituted
from millstream.service.dry_run import DryRun
from millstream.service.engine import Engine
from millstream.service.execution import open_engine
from millstream_parser import statements as s
from millstream_parser.lexemes import Lexeme, LexemeKind, lexemes

_OFFSET_RESET = "auto.offset.reset"
_USE = re.compile(r"\$\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Finding:
    """Something in a script: where, the name of the rule, and what it is about."""

    line: int
    column: int
    rule: str
    message: str
    more: tuple[str, ...] = ()


def findings(text: str, functions: Sequence[UserFunction] = ()) -> list[Finding]:
    """What is found in a script that may call `functions`, in its order. Raises StatementError
    where it cannot be told apart into statements."""
    read = list(_read(text))
    parsed = [each for each in read if isinstance(each, ParsedStatement)]
    found = [each for each in read if isinstance(each, Finding)]
    engine = open_engine(":memory:", EngineSettings(), now_ms, functions)
    try:
        _make_topics(parsed, engine)
        found += _errors(parsed, engine)
    finally:
        engine.close()
    found += [*_late_settings(parsed), *_unused(parsed, text)]
    for each in parsed:
        found += _unlikely(each)
    return sorted(found, key=lambda finding: (finding.line, finding.column))


def _read(text: str) -> Iterator[ParsedStatement | Finding]:
    """The statements, with variables replaced; a finding for each that is none."""
    variables: dict[str, str] = {}
    for each in split_text(text):
        try:
            for parsed in parse_text(substituted(each, variables)):
                yield parsed
                if isinstance(parsed.statement, s.DefineVariable):
                    _define(parsed.statement, variables)
        except MillstreamError as error:
            yield _finding(error, each, "syntax")


def _define(statement: s.DefineVariable, variables: dict[str, str]) -> None:
    if statement.value is None:
        variables.pop(statement.name, None)
    else:
        variables[statement.name] = statement.value


def _finding(error: MillstreamError, text: str, rule: str) -> Finding:
    """An error of a statement, at its place or at the statement's first word."""
    line, column = _first(text)
    if error.span is not None:
        line, column = error.span.line, error.span.column
    first, *rest = str(error).splitlines() or [""]
    return Finding(line, column, rule, first.removeprefix(f"line {line}:{column}: "), tuple(rest))


def _first(text: str) -> tuple[int, int]:
    """The line and column of the first word of a statement's padded text."""
    start = next((each.start for each in lexemes(text) if _no_comment(each)), 0)
    return text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start)


def _no_comment(lexeme: Lexeme) -> bool:
    return lexeme.kind is not LexemeKind.COMMENT


def _make_topics(parsed: Iterable[ParsedStatement], engine: Engine) -> None:
    """Make the topics that the script takes to be there, with as many partitions as most others."""
    wanted, partitions = [], Counter[int]()
    for each in parsed:
        if isinstance(each.statement, s.CreateSource):
            with suppress(MillstreamError):
                properties = read_properties(each.statement.properties, Form.CREATE)
                if properties.partitions is not None:
                    partitions[properties.partitions] += 1
                elif properties.topic is not None:
                    wanted.append(properties.topic)
    ((count, _),) = partitions.most_common(1) or [(1, 0)]
    for name in dict.fromkeys(wanted):
        with suppress(MillstreamError):
            engine.log.create_topic(Topic(name, count))


def _errors(parsed: Iterable[ParsedStatement], engine: Engine) -> Iterator[Finding]:
    """What the check before the execution of a script says. Left out are statements about what
    could not be defined, and about sources whose columns only a schema registry knows."""
    check, undefined = DryRun(engine, Session()), set[str]()
    for each in parsed:
        names = {word.decoded.upper() for word in lexemes(each.text)}
        try:
            if undefined.isdisjoint(names) and not _from_registry(each.statement):
                check.check(each)
                continue
        except MillstreamError as error:
            yield _finding(error, each.script, "error")
        if isinstance(each.statement, s.CreateSource | s.CreateAs):
            undefined.add(each.statement.name.upper())


def _from_registry(statement: s.Statement) -> bool:
    return isinstance(statement, s.CreateSource) and not statement.elements


def _late_settings(parsed: Iterable[ParsedStatement]) -> Iterator[Finding]:
    """Where to begin is said after a query that it does not apply to."""
    query = ""
    for each in parsed:
        match each.statement:
            case s.CreateAs(name=name) | s.InsertInto(target=name):
                query = query or name
            case s.SetProperty(name=name, value=value) if name == _OFFSET_RESET and value:
                if query:
                    message = f"'{_OFFSET_RESET}' has no effect on the query of {query} before it"
                    hint = "Set it at the beginning of the script."
                    yield Finding(*_first(each.script), "late-setting", message, (hint,))
                return


def _unused(parsed: Iterable[ParsedStatement], text: str) -> Iterator[Finding]:
    """Variables that nothing uses."""
    used = {name.upper() for name in _USE.findall(text)}
    for each in parsed:
        match each.statement:
            case s.DefineVariable(name=name, value=value) if value is not None:
                if name.upper() not in used:
                    message = f"The variable '{name}' is not used"
                    yield Finding(*_first(each.script), "unused-variable", message)


def _unlikely(parsed: ParsedStatement) -> Iterator[Finding]:
    """What is allowed, but most likely not meant."""
    for query in _queries(parsed.statement):
        if query.emit == "FINAL" and query.window is not None and query.window.grace is None:
            message = "EMIT FINAL without GRACE PERIOD drops each record that comes late at all"
            hint = "Say how late records may be: (SIZE 1 HOUR, GRACE PERIOD 5 MINUTES)."
            yield Finding(*_first(parsed.script), "final-without-grace", message, (hint,))


def _queries(statement: s.Statement) -> tuple[s.Query, ...]:
    match statement:
        case s.CreateAs(query=query) | s.InsertInto(query=query):
            return (query, *query.union)
        case s.SelectStatement(query=s.Query() as query):
            return (query, *query.union)
    return ()

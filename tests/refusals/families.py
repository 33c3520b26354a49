"""The families of refusals by their wording: every refusal belongs to exactly one.

A family is a template. A message is one of it where it matches from its start to its end, each
parameter being of its kind: a type, a name, a number.
"""

from __future__ import annotations

import re
from functools import cache
from string import Formatter

from millstream.catalog import wordings as catalog_wordings
from millstream.connectors import wordings as connector_wordings
from millstream.ddl import wordings as ddl_wordings
from millstream.model import refusals
from millstream.plan import wordings as plan_wordings
from millstream.query import wordings as query_wordings
from millstream.service import wordings as service_wordings
from millstream.statements import wordings as statement_wordings

MODULES = (
    refusals,
    catalog_wordings,
    plan_wordings,
    query_wordings,
    ddl_wordings,
    connector_wordings,
    statement_wordings,
    service_wordings,
)
_PARSER = {
    "P_SYNTAX": "line {line}:{column}: Syntax Error{expecting}",
    "P_TOO_DEEP": "The expression is nested too deeply: the limit is {count} levels",
    "P_SCRIPT_TOO_LONG": "The script has too many statements: the limit is {count}",
    "P_LIMIT": "{kind} queries don't support negative integers in the LIMIT clause. See "
    "https://cnfl.io/queries for more info.",
    "P_CALENDAR_UNIT": "{unit} has no fixed length and cannot be used here",
    "P_TOO_LONG": "{count} {unit} is longer than 4611686018427387903 milliseconds.",
    "P_PROPERTY_TWICE": "The property {name} is set more than once",
    "P_LAMBDA_LAST": "A lambda must come after every other argument of a function",
    "P_LAMBDA_PARAMETERS": "A lambda takes at most {count} parameters, not {number}",
    "P_DECIMAL": "Invalid decimal literal: {text}",
    "P_KEY_MARKER": "Line: {line}, Col: {column}: Column `{name}` is a '{marker}' column: please "
    "use '{proper}' for {sources}.",
    "P_OVERFLOW": "Number overflows DOUBLE: {text}",
    "P_ESCAPE": "Expected exactly one character in ESCAPE clause, got: {text}",
}
"""Errors of the parser only."""
_TYPE = r"(?:null|[A-Z]+(?:\(.*\)|<.*>)?)"
_NAME = r"\S+"
_COUNT = r"-?\d+"
_KINDS = {
    _TYPE: ("type", "target", "left_type", "right_type", "then", "default", "struct"),
    _NAME: ("name", "sink", "function", "alias", "query_id", "query", "format", "unit"),
    _COUNT: ("count", "number", "line", "place_number", "ms", "size", "grace", "retention"),
    "[A-Z_]+": ("property",),
    "(?:stream|table)": ("noun",),
    "(?:insert values into|copy into|create|delete|write to)": ("action",),
    "(?:the letter . may not stand [0-9]+ times|a number follows a padded one"
    "|the letter p must be followed by a letter to pad)": ("flaw",),
    "(?:streams|tables)": ("sources_of",),
    "(?:Stream|Table)": ("titled",),
    "(?:PRIMARY )?KEY": ("marker", "proper"),
    "s?": ("plural",),
    ".*": ("arguments", "features", "readers", "writers"),
    r"(?:Failed to prepare statement: |Line: \d+, Col: \d+: )*": ("place",),
    r"(?:\n(?:(?:Expecting [^\n]+)?\nStatement: .*|Unknown statement '.*')"
    r"\nSyntax error at or near '.*' at line \d+:\d+|: [^\n]+)": ("expecting",),
    "(?: '.*' must be a column in the source schema since [A-Z ]+ is applied on the input.)?": (
        "why",
    ),
    r"(?:\n\S+ was added as a synthetic key column because .*)?": ("synthetic",),
    r"(?:[A-Z][A-Z -]*[A-Z]|this place)": ("clause",),
}
KINDS = {name: pattern for pattern, names in _KINDS.items() for name in names}
"""The pattern of a parameter by its name; others are any non-empty text."""
_PREFIX = re.compile(
    r"(Failed to prepare statement: line \d+:\d+: |Error in (WHERE|HAVING) expression: |"
    r"Invalid Select: |Invalid Predicate: |Invalid expression: )"
)
TEMPLATES = {
    f"{module.__name__.split('.')[1]}.{name}": template.text
    for module in MODULES
    for name, template in module.TEMPLATES.items()
} | _PARSER
"""The text of each family by its name."""


@cache
def pattern(text: str) -> re.Pattern[str]:
    """What every message of a text with parameters matches from its start to its end."""
    found, groups = "", set[str]()
    for literal, name, _, _ in Formatter().parse(text):
        found += re.escape(literal)
        if name and name in groups:
            found += f"(?P={name})"
        elif name:
            groups.add(name)
            found += f"(?P<{name}>{KINDS.get(name, '.+')})"
    return re.compile(found, re.DOTALL)


def families_of(message: str) -> list[str]:
    """The families that a message belongs to, whatever clause it arose in."""
    while True:
        found = [name for name, text in TEMPLATES.items() if pattern(text).fullmatch(message)]
        prefix = _PREFIX.match(message)
        if found or prefix is None:
            return found
        message = message[prefix.end() :]

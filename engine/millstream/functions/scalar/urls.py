"""URL functions (reference: functions, section 8), by the grammar of RFC 3986."""

from __future__ import annotations

from millstream.functions.function import ScalarFunction
from millstream.functions.scalar.entry import function, let

CATEGORY = "URL"

_BAD_ESCAPE = "%([^0-9A-Fa-f]|$|[0-9A-Fa-f]([^0-9A-Fa-f]|$))"
_ILLEGAL = f'[\\x00-\\x20<>"\\\\\\x7b\\x7d|^`]|{_BAD_ESCAPE}'
_BEFORE_FRAGMENT = "split_part({0}, '#', 1)"
_AUTHORITY = f"regexp_extract({_BEFORE_FRAGMENT}, '^(?:[^:/?]+:)?//([^/?]*)', 1)"
# For example mailto:a@b, which has neither path nor query.
_OPAQUE = "regexp_matches({0}, '^[a-zA-Z][a-zA-Z0-9+.-]*:[^/]')"
_QUERY = (
    f"CASE WHEN contains({_BEFORE_FRAGMENT}, '?') AND NOT {_OPAQUE}"
    f" THEN substring({_BEFORE_FRAGMENT}, instr({_BEFORE_FRAGMENT}, '?') + 1) END"
)
_HOST = f"regexp_replace(regexp_replace({_AUTHORITY}, '^.*@', ''), ':[0-9]*$', '')"
_NAME = "([A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?\\.)*[A-Za-z]([A-Za-z0-9-]*[A-Za-z0-9])?\\.?"
_IS_HOST = f"regexp_full_match({_HOST}, '{_NAME}|[0-9.]+|\\[.*\\]')"
_PATH = f"regexp_extract({_BEFORE_FRAGMENT}, '^(?:[^:/?]+:)?(?://[^/?]*)?([^?]*)', 1)"
_PARAMETER = let(
    "_n",
    "{1}",
    "list_filter(string_split("
    + _QUERY
    + ", '&'), lambda _x: url_decode(split_part(_x, '=', 1)) = _n)[1]",
)


def _refuse(pattern: str, message: str, sql: str, kind: str = "VARCHAR") -> str:
    return (
        f"CASE WHEN regexp_matches({{0}}, '{pattern}')"
        f" THEN CAST(CAST('{message}' AS INTEGER) AS {kind}) ELSE {sql} END"
    )


def _part(
    name: str,
    sql: str,
    description: str,
    *examples: tuple[str, str],
    signature: str = "STRING -> STRING",
) -> ScalarFunction:
    kind = "INTEGER" if signature.endswith("INTEGER") else "VARCHAR"
    guarded = _refuse(_ILLEGAL, "invalid URL", sql, kind)
    return function(name, CATEGORY, [(signature, guarded)], description, examples)


URLS: tuple[ScalarFunction, ...] = (
    function(
        "URL_ENCODE_PARAM",
        CATEGORY,
        [
            (
                "STRING -> STRING",
                "replace(replace(replace(url_encode({0}), '%20', '+'), '~', '%7E'), '%2A', '*')",
            )
        ],
        "The text as a URL parameter.",
        (("URL_ENCODE_PARAM('a b&c')", "'a+b%26c'"), ("URL_ENCODE_PARAM('ok-1')", "'ok-1'")),
    ),
    function(
        "URL_DECODE_PARAM",
        CATEGORY,
        [
            (
                "STRING -> STRING",
                _refuse(_BAD_ESCAPE, "invalid escape", "url_decode(replace({0}, '+', ' '))"),
            )
        ],
        "The text that a URL parameter stands for.",
        (("URL_DECODE_PARAM('a+b%26c')", "'a b&c'"), ("URL_DECODE_PARAM('%zz')", "NULL")),
    ),
    _part(
        "URL_EXTRACT_FRAGMENT",
        "CASE WHEN contains({0}, '#') THEN url_decode(substring({0}, instr({0}, '#') + 1)) END",
        "The part after #, decoded.",
        ("URL_EXTRACT_FRAGMENT('http://a/b#c%20d')", "'c d'"),
        ("URL_EXTRACT_FRAGMENT('http://a/b')", "NULL"),
    ),
    _part(
        "URL_EXTRACT_HOST",
        f"CASE WHEN {_IS_HOST} THEN {_HOST} END",
        "The host; NULL where a name has other characters than letters, digits and hyphens.",
        ("URL_EXTRACT_HOST('http://me@a.b:80/c')", "'a.b'"),
        ("URL_EXTRACT_HOST('http://[::1]:80/c')", "'[::1]'"),
        ("URL_EXTRACT_HOST('http://a_b/c')", "NULL"),
        ("URL_EXTRACT_HOST('a.b')", "NULL"),
    ),
    _part(
        "URL_EXTRACT_PARAMETER",
        f"CASE WHEN contains({_PARAMETER}, '=') THEN url_decode(substring({_PARAMETER},"
        f" instr({_PARAMETER}, '=') + 1)) WHEN {_PARAMETER} IS NOT NULL THEN '' END",
        "The value of a parameter of the query, decoded; empty if it has none.",
        ("URL_EXTRACT_PARAMETER('http://h/p?x=%2B1&y', 'x')", "'+1'"),
        ("URL_EXTRACT_PARAMETER('http://h/p?x=%2B1&y', 'y')", "''"),
        ("URL_EXTRACT_PARAMETER('http://h/p', 'y')", "NULL"),
        signature="STRING, STRING -> STRING",
    ),
    _part(
        "URL_EXTRACT_PATH",
        f"CASE WHEN NOT {_OPAQUE} THEN url_decode({_PATH}) END",
        "The path, decoded.",
        ("URL_EXTRACT_PATH('http://a.b/c/d?e')", "'/c/d'"),
        ("URL_EXTRACT_PATH('http://a.b?e')", "''"),
        ("URL_EXTRACT_PATH('mailto:a@b.c')", "NULL"),
    ),
    _part(
        "URL_EXTRACT_PORT",
        f"CAST(nullif(regexp_extract({_AUTHORITY}, ':([0-9]+)$', 1), '') AS INTEGER)",
        "The port.",
        ("URL_EXTRACT_PORT('http://a.b:80/c')", "80"),
        ("URL_EXTRACT_PORT('http://a.b/c')", "NULL"),
        signature="STRING -> INTEGER",
    ),
    _part(
        "URL_EXTRACT_PROTOCOL",
        "nullif(regexp_extract({0}, '^([a-zA-Z][a-zA-Z0-9+.-]*):', 1), '')",
        "The scheme.",
        ("URL_EXTRACT_PROTOCOL('https://a.b')", "'https'"),
        ("URL_EXTRACT_PROTOCOL('a.b')", "NULL"),
    ),
    _part(
        "URL_EXTRACT_QUERY",
        f"url_decode({_QUERY})",
        "The query, decoded.",
        ("URL_EXTRACT_QUERY('http://a/b?c=%20d#e')", "'c= d'"),
        ("URL_EXTRACT_QUERY('http://a/b')", "NULL"),
    ),
)
"""The functions of this category."""

"""Reads queries about the database, and prints them for DuckDB.

The text is parsed to a tree as PostgreSQL's SQL, the tree is checked against lists of nodes,
functions and relations, and what runs is printed from it.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from millstream.query.allowed import FUNCTIONS as OF_PULL_QUERIES
from millstream.query.allowed import NODES
from millstream_parser.lexemes import Lexeme, code_lexemes
from millstream_parser.parameters import Value
from millstream_server.postgres.casts import is_array, is_cast
from millstream_server.postgres.refusals import NOT_SUPPORTED, PgError
from millstream_server.postgres.relations import relations
from millstream_server.postgres.system_functions import FUNCTIONS, TABLE_FUNCTIONS

_UNNAMED = "?column?"
_ABOUT_CATALOG = re.compile(r"\bpg_\w|\binformation_schema\b|::\s*reg", re.IGNORECASE)
_SCHEMAS = ("pg_catalog", "information_schema")
_NODES = (
    *(*NODES, exp.Collate, exp.Operator, exp.Parameter, exp.Lateral, exp.Any, exp.All, exp.Paren),
    *(exp.ObjectIdentifier, exp.Func, exp.AnyValue, exp.SessionUser, exp.National, exp.ByteString),
)
_OF_ROWS = (exp.GenerateSeries, exp.ExplodingGenerateSeries, exp.Unnest, exp.Explode)
_PATTERNS: Mapping[str, tuple[type[exp.Expr], bool]] = {
    "~": (exp.RegexpLike, False),
    "!~": (exp.RegexpLike, True),
    "~*": (exp.RegexpILike, False),
    "!~*": (exp.RegexpILike, True),
    "~~": (exp.Like, False),
    "!~~": (exp.Like, True),
    "=": (exp.EQ, False),
    "<>": (exp.NEQ, False),
}
_TO_NUMBER = {"REGCLASS": "relation_oid", "REGTYPE": "type_oid", "REGNAMESPACE": "schema_oid"}
_TO_NAME = {"REGCLASS": "relation_name", "REGTYPE": "type_name", "REGNAMESPACE": "schema_name"}
_NUMBERS = ("INT", "INTEGER", "BIGINT", "INT4", "INT8")
_AS_TEXT = frozenset(
    ["NAME", "CHAR", "REGPROC", "REGPROCEDURE", "REGROLE", "REGOPER", "SQL_IDENTIFIER", "ACLITEM"]
)
_AS_NUMBER = frozenset(["OID", "XID", "CID", "INT2VECTOR", "OIDVECTOR"])


def introspective(text: str) -> exp.Query | None:
    """The tree of a query that is about the database, and about no stream or table. Raises PgError
    if it is about the catalog, but cannot be read."""
    parts = code_lexemes(text)
    if not parts or parts[0].upper not in ("SELECT", "WITH", "VALUES", "("):
        return None
    about = _ABOUT_CATALOG.search(text) is not None
    if not about and _has_sources(parts):
        return None
    try:
        read = sqlglot.parse(_without_oid_arrays(text, parts), dialect="postgres")
        trees = [tree for tree in read if tree is not None]
    except (SqlglotError, RecursionError) as failure:
        if not about:
            return None
        first = str(failure).splitlines()[0]
        raise PgError("The query about the catalog cannot be read.", detail=first) from failure
    tree = _selected(trees[0]) if len(trees) == 1 else None
    if not isinstance(tree, exp.Query):
        return None
    tables = [relation_of(table) for table in tables_of(tree)]
    if not all(tables):
        if not about or not any(tables):
            return None
        raise PgError(
            "A query is about the catalog, or about streams and tables.", code=NOT_SUPPORTED
        )
    return tree


def _without_oid_arrays(text: str, parts: Sequence[Lexeme]) -> str:
    """The text with casts to `bigint[]` in place of those to `oid[]`, which sqlglot cannot read."""
    for at in range(len(parts) - 1, 1, -1):
        part = parts[at]
        if part.upper == "OID" and is_array(parts, at + 1) and is_cast(parts, at - 2):
            text = f"{text[: part.start]}bigint{text[part.end :]}"
    return text


def _selected(tree: exp.Expr) -> exp.Expr:
    """VALUES as a query."""
    if not isinstance(tree, exp.Values) or not tree.expressions:
        return tree
    width = len(tree.expressions[0].expressions)
    names = [exp.to_identifier(f"column{number}") for number in range(1, width + 1)]
    tree.set("alias", exp.TableAlias(this=exp.to_identifier("rows"), columns=names))
    return exp.select("*").from_(tree)


def _has_sources(parts: Sequence[Lexeme]) -> bool:
    """Whether there is a FROM outside of parentheses, and not only for generate_series."""
    depth = 0
    for part, after in zip(parts, [*parts[1:], None], strict=True):
        depth += (part.text == "(") - (part.text == ")")
        if part.upper == "FROM" and depth == 0:
            return after is None or after.upper != "GENERATE_SERIES"
    return False


def tables_of(tree: exp.Expr) -> list[exp.Table]:
    """The places of relations, without those of common table expressions."""
    common = {cte.alias_or_name.lower() for cte in tree.find_all(exp.CTE)}
    found = (table for table in tree.find_all(exp.Table) if isinstance(table.this, exp.Identifier))
    return [table for table in found if table.args.get("db") or table.name.lower() not in common]


def relation_of(table: exp.Table) -> str:
    """The relation that a table names, or ""."""
    schema, name = table.db.lower(), table.name.lower()
    if schema == "information_schema":
        name = f"information_schema.{name}"
    elif schema not in ("", "pg_catalog"):
        return ""
    return name if name in relations() or schema in _SCHEMAS else ""


def printed(tree: exp.Expr, values: Sequence[Value], settings: Mapping[str, str]) -> str:
    """The query for DuckDB. Raises PgError for what is on no list."""
    made = tree.copy()
    for node in list(made.walk()):
        _check(node)
    _label(made)
    for table in tables_of(made):
        _rename(table)
    for table in list(made.find_all(exp.Table)):
        _unqualify(table)
    for node in reversed(list(made.walk())):
        new = _translated(node, values, settings)
        if new is not node:
            node.replace(new)
    return str(made.sql(dialect="duckdb"))


def _label(tree: exp.Expr) -> None:
    """Name the columns of the result that have no name, as PostgreSQL names them."""
    while isinstance(tree, exp.SetOperation | exp.Subquery):
        tree = tree.this
    for item in list(tree.expressions) if isinstance(tree, exp.Select) else ():
        if not isinstance(item, exp.Alias | exp.Column | exp.Star):
            item.replace(exp.alias_(item.copy(), _name_of(item), quoted=True))


def _name_of(item: exp.Expr) -> str:
    match item:
        case exp.Column() | exp.Bracket() | exp.Paren() | exp.Collate() if item.name or item.this:
            return item.name or _name_of(item.this)
        case exp.Cast():
            inner = _name_of(item.this)
            return item.to.sql(dialect="postgres").lower() if inner == _UNNAMED else inner
        case exp.Dot():
            return _name_of(item.expression)
        case exp.Identifier():
            return str(item.name)
        case exp.Case():
            return "case"
        case exp.Subquery() if isinstance(item.this, exp.Select):
            first = item.this.expressions[0]
            return str(first.alias or _name_of(first))
        case exp.Anonymous():
            return str(item.this).lower()
        case exp.CurrentVersion():
            return "version"
        case exp.Func() if not isinstance(item, exp.Connector):
            return item.sql_name().lower()
    return _UNNAMED


def _check(node: exp.Expr) -> None:
    if not isinstance(node, _NODES):
        raise _unsupported(type(node).__name__)
    if isinstance(node, exp.Anonymous | exp.AnonymousAggFunc):
        if str(node.this).lower() not in _ALLOWED:
            raise _unsupported(f"the function {str(node.this).lower()}")
    elif isinstance(node, exp.Func) and not isinstance(node, NODES):
        names = {name.lower() for name in type(node).sql_names()}
        if names.isdisjoint(_ALLOWED):
            raise _unsupported(f"the function {min(names)}")


def _unsupported(what: str) -> PgError:
    return PgError(f"Queries about the catalog do not have {what}.", code=NOT_SUPPORTED)


_ALLOWED = (
    FUNCTIONS
    | {name.lower() for name in OF_PULL_QUERIES}
    | {"_pg_expandarray", "current_user", "session_user", "current_version", "current_role"}
    | {"regexp_like", "regexp_i_like", "regexp_ilike", "exploding_generate_series", "array_any"}
    | {"and", "or", "xor", "not", "any", "all", "array", "case", "cast", "exists", "if"}
)


def _rename(table: exp.Table) -> None:
    name = relation_of(table)
    if name not in relations():
        raise PgError(f"There is no relation {table.db}.{table.name} here.", code="42P01")
    if not table.alias:
        table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name.lower())))
    table.set("this", exp.to_identifier(name, quoted=True))
    table.set("db", None)
    table.set("catalog", None)


def _unqualify(table: exp.Table) -> None:
    """A function in FROM. Its alias names its column, too."""
    if isinstance(table.this, exp.Identifier):
        return
    table.set("db", None)
    alias = table.args.get("alias")
    if alias is None:
        return
    if not isinstance(table.this, _OF_ROWS) and table.this.name.lower() not in TABLE_FUNCTIONS:
        # A function of one value is a relation of one row.
        value = exp.alias_(table.this.copy(), alias.this.copy())
        table.replace(exp.Subquery(this=exp.select(value), alias=alias.copy()))
    elif not alias.columns:
        alias.set("columns", [alias.this.copy()])


def _translated(node: exp.Expr, values: Sequence[Value], settings: Mapping[str, str]) -> exp.Expr:
    match node:
        case exp.Anonymous(this="current_setting", expressions=[exp.Literal() as name, *_]):
            # A table function takes no subquery, as which DuckDB's macro would look it up.
            value = settings.get(name.name.lower())
            return exp.Null() if value is None else exp.Literal.string(value)
        case exp.Any() | exp.All() if (array := _array(node.this)) is not None:
            return type(node)(this=array)
        case exp.Dot() if node.this.name.lower() in _SCHEMAS and isinstance(
            node.expression, exp.Func
        ):
            return _function(node.expression)
        case exp.Anonymous():
            return _function(node)
        case exp.ByteString():
            return exp.Literal.string(_unescaped(node.name))
        case exp.Collate(this=exp.Expr() as inner):
            return inner
        case exp.Operator():
            return _operator(node)
        case exp.Cast():
            return _cast(node)
        case exp.Parameter():
            return _literal(values, node.name)
        case exp.CurrentUser() | exp.SessionUser() | exp.CurrentRole():
            return exp.Anonymous(this="current_owner")
        case exp.Column() if node.db or node.args.get("catalog"):
            return exp.column(node.this, table=node.args["table"])
    return node


def _array(node: exp.Expr) -> exp.Expr | None:
    """An array that is written as a text, {a,b}."""
    inner = node.this if isinstance(node, exp.Paren) else node
    if not isinstance(inner, exp.Literal) or not inner.is_string:
        return None
    text = inner.name.strip()
    if not (text.startswith("{") and text.endswith("}")):
        return None
    items = [item.strip().strip('"') for item in text[1:-1].split(",") if item.strip()]
    return exp.Paren(this=exp.Array(expressions=[exp.Literal.string(item) for item in items]))


def _function(node: exp.Expr) -> exp.Expr:
    """A function by its name in DuckDB."""
    if isinstance(node, exp.Anonymous):
        name = str(node.this).lower()
        node.set("this", _RENAMED.get(name, name))
    return node


_RENAMED = {
    "_pg_expandarray": "pg_expand_array",
    "json_build_object": "json_object",
    "jsonb_build_object": "json_object",
    "json_agg": "json_group_array",
    "jsonb_agg": "json_group_array",
}


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


def _unescaped(text: str) -> str:
    """The text of E'…', whose escapes with numbers are not read."""
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), text, flags=re.DOTALL)


def _operator(node: exp.Operator) -> exp.Expr:
    name = str(node.args["operator"]).rpartition(".")[2]
    if name not in _PATTERNS:
        raise _unsupported(f"the operator {name}")
    kind, negated = _PATTERNS[name]
    found = kind(this=node.this, expression=node.expression)
    return exp.Not(this=exp.Paren(this=found)) if negated else found


def _is_number(kind: exp.Expr) -> bool:
    return kind.sql(dialect="postgres").rpartition(".")[2].upper() in (*_AS_NUMBER, *_NUMBERS)


def _cast(node: exp.Cast) -> exp.Expr:
    """Types of PostgreSQL that DuckDB lacks. A text becomes the number of what it names; a number
    that becomes one of these types is shown by its name."""
    written = node.to.sql(dialect="postgres").upper()
    kind = written.rpartition(".")[2].strip('"')
    base, array = kind.removesuffix("[]"), kind.endswith("[]")
    if array and (items := _array(node.this)) is not None:
        return exp.cast(items, kind, dialect="postgres")
    if base in _TO_NUMBER:
        inner: exp.Expr = node.this
        is_text = isinstance(inner, exp.Literal) and inner.is_string
        if isinstance(node.parent, exp.Cast) and not is_text and _is_number(node.parent.to):
            return inner
        name = _TO_NUMBER[base] if is_text else _TO_NAME[base]
        return exp.Anonymous(this=name, expressions=[inner])
    if base in _AS_TEXT or base in _AS_NUMBER:
        text = "VARCHAR" if base in _AS_TEXT else "BIGINT"
        return exp.cast(node.this, f"{text}[]" if array else text, dialect="duckdb")
    if kind != written:
        return exp.cast(node.this, kind, dialect="postgres")
    return node


def _literal(values: Sequence[Value], name: str) -> exp.Expr:
    number = int(name) - 1 if name.isdecimal() else -1
    if not 0 <= number < len(values):
        raise PgError(f"There is no value for parameter ${name}.", code="08P01")
    match values[number]:
        case None:
            return exp.Null()
        case bool() as value:
            return exp.Boolean(this=value)
        case int() | float() | Decimal() as value:
            return exp.Paren(this=exp.Literal.number(str(value)))
        case str() as value:
            return exp.Literal.string(value)
        case datetime.datetime() | datetime.date() | datetime.time() as value:
            return exp.Literal.string(value.isoformat())
        case list() | tuple() as items:
            # The brackets of ANY ($1) are its own.
            listed = (_literal(items, str(at)) for at in range(1, len(items) + 1))
            return exp.Paren(this=exp.Array(expressions=list(listed)))
    raise PgError(f"Parameter ${name} cannot be used.", code=NOT_SUPPORTED)

"""PostgreSQL's system catalog, as far as clients ask for it: its relations over our sources.

A relation is a table of a small DuckDB database in memory. Most describe what does not exist here
(triggers, policies, roles, …), and are empty. Source: PostgreSQL's documentation, "System Catalogs"
and "The Information Schema".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from zlib import crc32

from millstream.catalog.source import Source
from millstream.cluster.scatter_gather import pull_schema
from millstream.model.schema import Column, Role, SourceKind
from millstream_server.postgres.spelling import SCHEMA, Spelling
from millstream_server.postgres.values import OID, PgType, pg_type

DATABASE = "millstream"
OWNER, SCHEMA_OID, DATABASE_OID = 10, 2200, 1
CATALOG_OID, INFORMATION_OID = 11, 12
_FIRST_OID = 1 << 16

_TYPES = {
    **dict.fromkeys(("oid", "xid", "int8"), "BIGINT"),
    **dict.fromkeys(("int4", "cardinal_number"), "INTEGER"),
    **dict.fromkeys(("float4", "float8", "numeric"), "DOUBLE"),
    **dict.fromkeys(("timestamptz", "time_stamp"), "TIMESTAMP"),
    **dict.fromkeys(("int2vector", "oidvector"), "BIGINT[]"),
    "bool": "BOOLEAN",
    "bytea": "BLOB",
    "int2": "SMALLINT",
    "interval": "INTERVAL",
}
Row = dict[str, object]


@cache
def relations() -> Mapping[str, str]:
    """Every relation and its columns, for DuckDB; those outside pg_catalog have their schema in
    their name."""
    text = files(__package__).joinpath("relations.txt").read_text("ascii")
    found = {}
    for line in text.splitlines():
        name, *columns = line.split(" ")
        found[name] = ", ".join(map(_column, columns))
    return found


def _column(written: str) -> str:
    """A column of a relation. Whatever has no values here is text."""
    name, _, kind = written.partition(":")
    base = _TYPES.get(kind.removeprefix("_"), "VARCHAR")
    return f'"{name}" {base}[]' if kind.startswith("_") else f'"{name}" {base}'


@dataclass(frozen=True, slots=True)
class _Named:
    """A source with its number."""

    oid: int
    source: Source
    columns: tuple[Column, ...]

    @property
    def keys(self) -> list[int]:
        """The positions of the primary key of a table."""
        if self.source.kind is not SourceKind.TABLE:
            return []
        return [at for at, column in enumerate(self.columns, 1) if column.role is Role.KEY]


def rows(sources: Sequence[Source], spelling: Spelling) -> Iterator[tuple[str, Row]]:
    """The rows that depend on the sources, each with its relation. Columns that a row does not name
    are NULL."""
    for named in _named(sources):
        name = spelling.shown(named.source.name)
        yield "pg_class", _class(named.oid, name, named)
        for at, column in enumerate(named.columns, 1):
            yield "pg_attribute", _attribute(named, at, column, spelling)
        if keys := named.keys:
            index = named.oid + 1
            yield "pg_class", _class(index, f"{name}_pkey", None)
            yield "pg_index", _index(index, named.oid, keys)
            yield "pg_constraint", _constraint(f"{name}_pkey", index, named.oid, keys)


def columns_of(source: Source) -> tuple[Column, ...]:
    """The columns that a pull query of the source gives with *."""
    return pull_schema(source).columns


def _named(sources: Sequence[Source]) -> Iterator[_Named]:
    """A source keeps its number as long as it has its name: clients remember it. Two numbers are
    kept free for each, the second for its primary key."""
    taken: set[int] = set()
    for source in sources:
        oid = _FIRST_OID + (crc32(source.name.encode()) >> 3) * 2
        while oid in taken:
            oid += 2
        taken.add(oid)
        yield _Named(oid, source, columns_of(source))


def _class(oid: int, name: str, named: _Named | None) -> Row:
    kind, count, has_key = "i", 1, False
    if named is not None:
        kind = "r" if named.source.kind is SourceKind.TABLE else "v"
        count, has_key = len(named.columns), bool(named.keys)
    numbers = dict.fromkeys(("reltype", "reloftype", "reltablespace", "reltoastrelid"), 0)
    flags = ("isshared", "hasrules", "hastriggers", "hassubclass", "rowsecurity", "ispartition")
    return {
        **numbers,
        **dict.fromkeys((f"rel{flag}" for flag in (*flags, "forcerowsecurity")), False),
        **dict.fromkeys(("relpages", "relallvisible", "relchecks", "relrewrite"), 0),
        "oid": oid,
        "relname": name,
        "relnamespace": SCHEMA_OID,
        "relowner": OWNER,
        "relam": 2,
        "relfilenode": oid,
        "reltuples": -1.0,
        "relhasindex": has_key,
        "relpersistence": "p",
        "relkind": kind,
        "relnatts": count,
        "relispopulated": True,
        "relreplident": "d",
    }


def _attribute(named: _Named, at: int, column: Column, spelling: Spelling) -> Row:
    kind = pg_type(column.type)
    return {
        "attrelid": named.oid,
        "attname": spelling.shown(column.name),
        "attnum": at,
        "atttypid": kind.oid,
        "atttypmod": _modifier(column),
        "attlen": kind.size,
        "attnotnull": at in named.keys,
        "attndims": int(kind.array == 0),
        **dict.fromkeys(("atthasdef", "atthasmissing", "attisdropped", "attbyval"), False),
        **dict.fromkeys(("attidentity", "attgenerated", "attcompression"), ""),
        **dict.fromkeys(("attinhcount", "attcollation"), 0),
        "attstattarget": -1,
        "attcacheoff": -1,
        "attislocal": True,
        "attstorage": "p",
        "attalign": "i",
    }


def _modifier(column: Column) -> int:
    """What PostgreSQL notes of NUMERIC(precision, scale)."""
    precision = getattr(column.type, "precision", None)
    return -1 if precision is None else (precision << 16 | getattr(column.type, "scale", 0)) + 4


def _index(oid: int, table: int, keys: Sequence[int]) -> Row:
    true = ("unique", "primary", "valid", "ready", "live")
    false = ("exclusion", "clustered", "replident")
    vectors = ("indcollation", "indclass", "indoption")
    return {
        "indexrelid": oid,
        "indrelid": table,
        "indnatts": len(keys),
        "indnkeyatts": len(keys),
        **dict.fromkeys((f"indis{flag}" for flag in true), True),
        **dict.fromkeys((f"indis{flag}" for flag in false), False),
        "indimmediate": True,
        "indnullsnotdistinct": False,
        "indcheckxmin": False,
        **dict.fromkeys(vectors, [0] * len(keys)),
        "indkey": list(keys),
    }


def _constraint(name: str, index: int, table: int, keys: Sequence[int]) -> Row:
    return {
        "oid": index,
        "conname": name,
        "connamespace": SCHEMA_OID,
        "contype": "p",
        "conrelid": table,
        "conindid": index,
        "conkey": list(keys),
        "convalidated": True,
        **dict.fromkeys(("condeferrable", "condeferred"), False),
        **dict.fromkeys(("contypid", "conparentid", "confrelid", "coninhcount"), 0),
        **dict.fromkeys(("confupdtype", "confdeltype", "confmatchtype"), " "),
        "conislocal": True,
        "connoinherit": True,
    }


BASE: tuple[tuple[PgType, str, str], ...] = (
    (PgType("boolean", 16, 1000, 1), "bool", "B"),
    (PgType("bytea", 17, 1001), "bytea", "U"),
    (PgType('"char"', 18, 1002, 1), "char", "Z"),
    (PgType("name", 19, 1003, 64), "name", "S"),
    (PgType("bigint", 20, 1016, 8), "int8", "N"),
    (PgType("smallint", 21, 1005, 2), "int2", "N"),
    (PgType("integer", 23, 1007, 4), "int4", "N"),
    (PgType("regproc", 24, 1008, 4), "regproc", "N"),
    (PgType("text", 25, 1009), "text", "S"),
    (OID, "oid", "N"),
    (PgType("json", 114, 199), "json", "U"),
    (PgType("real", 700, 1021, 4), "float4", "N"),
    (PgType("double precision", 701, 1022, 8), "float8", "N"),
    (PgType("unknown", 705, 0, -2), "unknown", "X"),
    (PgType("character", 1042, 1014), "bpchar", "S"),
    (PgType("character varying", 1043, 1015), "varchar", "S"),
    (PgType("date", 1082, 1182, 4), "date", "D"),
    (PgType("time without time zone", 1083, 1183, 8), "time", "D"),
    (PgType("timestamp without time zone", 1114, 1115, 8), "timestamp", "D"),
    (PgType("timestamp with time zone", 1184, 1185, 8), "timestamptz", "D"),
    (PgType("interval", 1186, 1187, 16), "interval", "T"),
    (PgType("numeric", 1700, 1231), "numeric", "N"),
    (PgType("regclass", 2205, 2210, 4), "regclass", "N"),
    (PgType("uuid", 2950, 2951, 16), "uuid", "U"),
    (PgType("jsonb", 3802, 3807), "jsonb", "U"),
)
"""The types of the catalog that are no arrays, with their short names and categories."""


def fixed_rows(user: str) -> Iterator[tuple[str, Row]]:
    """The rows that are the same for every catalog."""
    for kind, name, category in BASE:
        element = 18 if name == "name" else 0
        yield "pg_type", _type(kind.oid, name, kind.size, category, element, kind.array)
        if kind.array:
            yield "pg_type", _type(kind.array, f"_{name}", -1, "A", kind.oid, 0)
    for oid, schema in (
        (CATALOG_OID, "pg_catalog"),
        (INFORMATION_OID, "information_schema"),
        (SCHEMA_OID, SCHEMA),
    ):
        yield "pg_namespace", {"oid": oid, "nspname": schema, "nspowner": OWNER}
    yield (
        "pg_database",
        {
            "oid": DATABASE_OID,
            "datname": DATABASE,
            "datdba": OWNER,
            "encoding": 6,
            "datlocprovider": "c",
            "datcollate": "C.UTF-8",
            "datctype": "C.UTF-8",
            "datistemplate": False,
            "datallowconn": True,
            "datconnlimit": -1,
        },
    )
    rights = ("super", "createrole", "createdb", "replication", "bypassrls")
    yield (
        "pg_roles",
        {
            "oid": OWNER,
            "rolname": user,
            "rolinherit": True,
            "rolcanlogin": True,
            **dict.fromkeys((f"rol{right}" for right in rights), False),
            "rolconnlimit": -1,
        },
    )
    yield "pg_am", {"oid": 2, "amname": "heap", "amhandler": "heap_tableam_handler", "amtype": "t"}
    yield "information_schema.enabled_roles", {"role_name": user}
    yield "information_schema.information_schema_catalog_name", {"catalog_name": DATABASE}


def shown_types() -> dict[int, str]:
    """How each type is written, by its OID."""
    found = {kind.oid: kind.name for kind, *_ in BASE}
    return found | {kind.array: f"{kind.name}[]" for kind, *_ in BASE if kind.array}


def _type(oid: int, name: str, size: int, category: str, element: int, array: int) -> Row:
    return {
        "oid": oid,
        "typname": name,
        "typnamespace": CATALOG_OID,
        "typowner": OWNER,
        "typlen": size,
        "typcategory": category,
        "typtype": "p" if size == -2 else "b",
        "typdelim": ",",
        "typelem": element,
        "typarray": array,
        "typisdefined": True,
        "typtypmod": -1,
        **dict.fromkeys(("typrelid", "typbasetype", "typndims", "typcollation"), 0),
        **dict.fromkeys(("typbyval", "typispreferred", "typnotnull"), False),
        "typinput": f"{name}in",
        "typoutput": f"{name}out",
        "typreceive": f"{name}recv",
        "typsend": f"{name}send",
        "typstorage": "x",
        "typalign": "i",
    }

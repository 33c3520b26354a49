"""PostgreSQL's functions about a database, as macros of DuckDB."""

from __future__ import annotations

from millstream_server.postgres.relations import DATABASE, shown_types
from millstream_server.postgres.settings import SERVER_VERSION
from millstream_server.postgres.spelling import SCHEMA


def _looked_up(key: str, value: str, relation: str, wanted: str = "a") -> str:
    """The value of a key of a relation. The argument stands outside the subquery: its columns are
    those of the query around it, whatever their names are."""
    return f"""(SELECT map(list(z.k), list(z.v)) FROM (SELECT y.{key} AS k,
        any_value(y.{value}) AS v FROM {relation} y WHERE y.{key} IS NOT NULL GROUP BY 1) z
        )[{wanted}]"""


def _bare(prefix: str) -> str:
    """A name as it is written in a string: without this schema and without quotes."""
    folded = """CASE WHEN contains(a, '"') THEN replace(a, '"', '') ELSE lower(a) END"""
    return f"regexp_replace({folded}, '^{prefix}', '')" if prefix else folded


_INDEXES = """(SELECT i.indexrelid AS oid,
    list(t.attname ORDER BY list_position(i.indkey, t.attnum)) AS names,
    'CREATE UNIQUE INDEX ' || x.relname || ' ON public.' || c.relname || ' USING btree ('
    || string_agg(t.attname, ', '
    ORDER BY list_position(i.indkey, t.attnum)) || ')' AS defined FROM pg_index i
    JOIN pg_class x ON x.oid = i.indexrelid JOIN pg_class c ON c.oid = i.indrelid
    JOIN pg_attribute t ON t.attrelid = i.indrelid AND list_contains(i.indkey, t.attnum)
    GROUP BY i.indexrelid, x.relname, c.relname)"""
_TYPES_SHOWN = str(shown_types()).replace("{", "MAP {")
_TYPES_NAMED = str({name: oid for oid, name in shown_types().items()}).replace("{", "MAP {")
_DEFINED: dict[str, str | tuple[str, ...]] = {
    "current_owner()": "(SELECT rolname FROM pg_roles LIMIT 1)",
    "version()": f"'PostgreSQL {SERVER_VERSION} (Millstream)'",
    "current_database()": f"'{DATABASE}'",
    "current_catalog()": f"'{DATABASE}'",
    "current_schema()": f"'{SCHEMA}'",
    "current_schemas(a)": f"CASE WHEN a THEN ['pg_catalog', '{SCHEMA}'] ELSE ['{SCHEMA}'] END",
    "current_user()": "current_owner()",
    "session_user()": "current_owner()",
    "getdatabaseencoding()": "'UTF8'",
    "pg_backend_pid()": "0",
    "pg_client_encoding()": "'UTF8'",
    "pg_is_in_recovery()": "FALSE",
    "pg_postmaster_start_time()": "now()",
    "pg_conf_load_time()": "now()",
    "txid_current()": "0",
    "pg_current_xact_id()": "0",
    "pg_my_temp_schema()": "0",
    "inet_server_addr()": "NULL::VARCHAR",
    "inet_server_port()": "NULL::INTEGER",
    "inet_client_addr()": "NULL::VARCHAR",
    "inet_client_port()": "NULL::INTEGER",
    "pg_advisory_lock(a)": "NULL::VARCHAR",
    "pg_advisory_unlock(a)": "TRUE",
    "pg_advisory_unlock_all()": "NULL::VARCHAR",
    "pg_table_is_visible(a)": "a IS NOT NULL",
    "pg_type_is_visible(a)": "a IS NOT NULL",
    "pg_function_is_visible(a)": "a IS NOT NULL",
    "pg_operator_is_visible(a)": "a IS NOT NULL",
    "pg_opclass_is_visible(a)": "a IS NOT NULL",
    "pg_collation_is_visible(a)": "a IS NOT NULL",
    "pg_statistics_obj_is_visible(a)": "a IS NOT NULL",
    "pg_is_other_temp_schema(a)": "FALSE",
    "pg_get_userbyid(a)": _looked_up("oid", "rolname", "pg_roles"),
    "pg_get_expr(a, b), (a, b, c)": "NULL::VARCHAR",
    "pg_get_viewdef(a), (a, b)": "NULL::VARCHAR",
    "pg_get_ruledef(a), (a, b)": "NULL::VARCHAR",
    "pg_get_triggerdef(a), (a, b)": "NULL::VARCHAR",
    "pg_get_functiondef(a)": "NULL::VARCHAR",
    "pg_get_function_result(a)": "NULL::VARCHAR",
    "pg_get_function_arguments(a)": "NULL::VARCHAR",
    "pg_get_function_identity_arguments(a)": "NULL::VARCHAR",
    "pg_get_partkeydef(a)": "NULL::VARCHAR",
    "pg_get_serial_sequence(a, b)": "NULL::VARCHAR",
    "pg_get_statisticsobjdef_columns(a)": "NULL::VARCHAR",
    "pg_get_indexdef(a), (a, b, c)": (
        _looked_up("oid", "defined", _INDEXES),
        f"""CASE WHEN b = 0 THEN {_looked_up("oid", "defined", _INDEXES)}
        ELSE {_looked_up("oid", "names", _INDEXES)}[b] END""",
    ),
    "pg_get_constraintdef(a), (a, b)": _looked_up(
        "oid",
        "defined",
        """(SELECT k.oid, 'PRIMARY KEY (' || string_agg(t.attname, ', '
        ORDER BY list_position(k.conkey, t.attnum)) || ')' AS defined FROM pg_constraint k
        JOIN pg_attribute t ON t.attrelid = k.conrelid AND list_contains(k.conkey, t.attnum)
        GROUP BY k.oid)""",
    ),
    "pg_relation_is_publishable(a)": "FALSE",
    "pg_relation_size(a), (a, b)": "NULL::BIGINT",
    "pg_total_relation_size(a)": "NULL::BIGINT",
    "pg_table_size(a)": "NULL::BIGINT",
    "pg_indexes_size(a)": "NULL::BIGINT",
    "pg_database_size(a)": "NULL::BIGINT",
    "pg_tablespace_location(a)": "''",
    "pg_stat_get_numscans(a)": "0",
    "pg_encoding_to_char(a)": "'UTF8'",
    "pg_char_to_encoding(a)": "6",
    "pg_size_pretty(a)": "a::VARCHAR || ' bytes'",
    "obj_description(a), (a, b)": "NULL::VARCHAR",
    "col_description(a, b)": "NULL::VARCHAR",
    "shobj_description(a, b)": "NULL::VARCHAR",
    "has_schema_privilege(a, b), (a, b, c)": "TRUE",
    "has_table_privilege(a, b), (a, b, c)": "TRUE",
    "has_any_column_privilege(a, b), (a, b, c)": "TRUE",
    "has_column_privilege(a, b, c), (a, b, c, d)": "TRUE",
    "has_database_privilege(a, b), (a, b, c)": "TRUE",
    "has_function_privilege(a, b), (a, b, c)": "TRUE",
    "has_sequence_privilege(a, b), (a, b, c)": "TRUE",
    "row_security_active(a)": "FALSE",
    "format_type(a, b)": f"""CASE WHEN a = 1700 AND b > 4
        THEN 'numeric(' || ((b - 4) >> 16) || ',' || ((b - 4) & 65535) || ')'
        ELSE {_TYPES_SHOWN}[a] END""",
    "to_regclass(a)": "relation_oid(a)",
    "to_regtype(a)": "type_oid(a)",
    "relation_oid(a)": _looked_up("relname", "oid", "pg_class", _bare("(millstream[.])?public[.]")),
    "relation_name(a)": f"coalesce({_looked_up('oid', 'relname', 'pg_class')}, a::VARCHAR)",
    "type_oid(a)": f"""coalesce({_looked_up("typname", "oid", "pg_type", _bare("pg_catalog[.]"))},
        {_TYPES_NAMED}[{_bare("pg_catalog[.]")}])""",
    "type_name(a)": f"coalesce({_TYPES_SHOWN}[a], a::VARCHAR)",
    "schema_oid(a)": _looked_up("nspname", "oid", "pg_namespace", _bare("")),
    "schema_name(a)": _looked_up("oid", "nspname", "pg_namespace"),
    "quote_ident(a)": """CASE WHEN regexp_full_match(a, '[a-z_][a-z0-9_$]*') THEN a
        ELSE '"' || replace(a, '"', '""') || '"' END""",
    "parse_ident(a)": "string_split(replace(a, '\"', ''), '.')",
    "quote_literal(a)": "'''' || replace(a::VARCHAR, '''', '''''') || ''''",
    "current_setting(a), (a, b)": _looked_up("name", "setting", "pg_settings", "lower(a)"),
    "set_config(a, b, c)": "b",
    "array_upper(a, b)": "nullif(len(a), 0)",
    "array_lower(a, b)": "CASE WHEN len(a) > 0 THEN 1 END",
    "array_ndims(a)": "1",
    "cardinality(a)": "len(a)",
    "pg_expand_array(a)": """unnest(list_transform(range(1, len(a) + 1),
        lambda i: {'x': a[i], 'n': i}))""",
}
_TABLES = {
    "pg_get_keywords()": "SELECT '' AS word, 'U' AS catcode, '' AS catdesc WHERE FALSE",
    "pg_options_to_table(a)": "SELECT '' AS option_name, '' AS option_value WHERE FALSE",
    "aclexplode(a)": """SELECT 0 AS grantor, 0 AS grantee, '' AS privilege_type,
        FALSE AS is_grantable WHERE FALSE""",
    "pg_timezone_abbrevs()": "SELECT '' AS abbrev WHERE FALSE",
    "pg_show_all_settings()": "SELECT * FROM pg_settings",
    "pg_relation_filenode(a)": "SELECT a",
    "pg_partition_ancestors(a)": "SELECT a AS relid",
}
_OF_DUCKDB = """
array_length array_to_string generate_series generate_subscripts unnest regexp_replace
regexp_matches string_to_array strpos substring translate format left right md5 row_number
lower upper trim btrim ltrim rtrim length char_length octet_length position replace split_part
concat concat_ws coalesce nullif greatest least abs ceil ceiling floor round mod power sign sqrt
now current_timestamp localtimestamp current_date clock_timestamp statement_timestamp
transaction_timestamp date_trunc date_part extract to_timestamp age make_date timezone
count sum min max avg array_agg string_agg bool_and bool_or every json_agg jsonb_agg
json_build_object json_object_agg rank dense_rank lag lead first_value last_value repeat ascii chr
initcap reverse starts_with array_append array_cat array_position any_value row pi random
list_transform range
"""


OF_FUNCTIONS = (
    *("pg_roles", "pg_class", "pg_type", "pg_namespace", "pg_settings", "pg_constraint"),
    *("pg_index", "pg_attribute"),
)
"""The relations that they read."""
_FIRST = ("current_owner", "relation_oid", "type_oid")
"""Those that others use."""


def macros() -> list[str]:
    """The statements that define the functions, in an order that works."""
    found = []
    for heads, bodies in sorted(_DEFINED.items(), key=lambda item: _name(item[0]) not in _FIRST):
        name, parameters = _name(heads), heads.removeprefix(_name(heads)).split(", (")
        given = [bodies] * len(parameters) if isinstance(bodies, str) else bodies
        overloads = (
            f"({each.removeprefix('(')} AS {body}"
            for each, body in zip(parameters, given, strict=True)
        )
        found.append(f"CREATE MACRO {name}{', '.join(overloads)}")
    return found + [f"CREATE MACRO {head} AS TABLE {body}" for head, body in _TABLES.items()]


def _name(head: str) -> str:
    return head.partition("(")[0]


TABLE_FUNCTIONS = frozenset(
    {_name(head) for head in _TABLES} | {"generate_subscripts", "unnest", "generate_series"}
)
"""Those that give rows."""
FUNCTIONS = frozenset({_name(head) for head in (*_DEFINED, *_TABLES)} | set(_OF_DUCKDB.split()))
"""Every function that a query about the catalog may call."""

"""Relations of PostgreSQL's catalog that are views of others: their queries, for DuckDB."""

from __future__ import annotations

from millstream_server.postgres.relations import DATABASE

VIEWS: dict[str, str] = {
    "pg_user": """SELECT rolname AS usename, oid AS usesysid, rolcreatedb AS usecreatedb,
        rolsuper AS usesuper, rolreplication AS userepl, rolbypassrls AS usebypassrls
        FROM pg_roles""",
    "pg_authid": "SELECT * FROM pg_roles",
    "pg_tables": """SELECT n.nspname AS schemaname, c.relname AS tablename,
        current_owner() AS tableowner, NULL::VARCHAR AS tablespace, c.relhasindex AS hasindexes,
        FALSE AS hasrules, FALSE AS hastriggers, FALSE AS rowsecurity
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'r'""",
    "pg_views": """SELECT n.nspname AS schemaname, c.relname AS viewname,
        current_owner() AS viewowner, '' AS definition
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'v'""",
    "pg_indexes": """SELECT n.nspname AS schemaname, c.relname AS tablename,
        i.relname AS indexname, NULL::VARCHAR AS tablespace, '' AS indexdef
        FROM pg_index x JOIN pg_class c ON c.oid = x.indrelid JOIN pg_class i
        ON i.oid = x.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace""",
    "information_schema.schemata": f"""SELECT '{DATABASE}' AS catalog_name, nspname AS schema_name,
        current_owner() AS schema_owner FROM pg_namespace""",
    "information_schema.tables": f"""SELECT '{DATABASE}' AS table_catalog,
        n.nspname AS table_schema, c.relname AS table_name,
        CASE c.relkind WHEN 'r' THEN 'BASE TABLE' ELSE 'VIEW' END AS table_type,
        'YES' AS is_insertable_into, 'NO' AS is_typed, NULL::VARCHAR AS commit_action
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.relkind IN ('r', 'v')""",
    "information_schema.views": f"""SELECT '{DATABASE}' AS table_catalog,
        n.nspname AS table_schema, c.relname AS table_name, '' AS view_definition
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'v'""",
    "information_schema.columns": f"""SELECT '{DATABASE}' AS table_catalog,
        n.nspname AS table_schema, c.relname AS table_name, a.attname AS column_name,
        a.attnum::INTEGER AS ordinal_position, NULL::VARCHAR AS column_default,
        CASE WHEN a.attnotnull THEN 'NO' ELSE 'YES' END AS is_nullable,
        CASE WHEN t.typelem <> 0 THEN 'ARRAY' ELSE format_type(t.oid, -1) END AS data_type,
        NULL::INTEGER AS character_maximum_length, NULL::INTEGER AS character_octet_length,
        CASE t.typname WHEN 'int4' THEN 32 WHEN 'int8' THEN 64 WHEN 'float8' THEN 53
        WHEN 'numeric' THEN (a.atttypmod - 4) >> 16 END AS numeric_precision,
        CASE t.typname WHEN 'int4' THEN 0 WHEN 'int8' THEN 0
        WHEN 'numeric' THEN (a.atttypmod - 4) & 65535 END AS numeric_scale,
        CASE WHEN t.typcategory = 'D' THEN 3 END AS datetime_precision,
        NULL::VARCHAR AS domain_name, '{DATABASE}' AS udt_catalog, 'pg_catalog' AS udt_schema,
        t.typname AS udt_name, 'NO' AS is_identity, 'NEVER' AS is_generated,
        'NO' AS is_updatable, NULL::VARCHAR AS collation_name,
        NULL::VARCHAR AS identity_generation, NULL::VARCHAR AS generation_expression
        FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
        JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_type t ON t.oid = a.atttypid
        WHERE c.relkind IN ('r', 'v')""",
    "information_schema.table_constraints": f"""SELECT '{DATABASE}' AS constraint_catalog,
        n.nspname AS constraint_schema, k.conname AS constraint_name,
        '{DATABASE}' AS table_catalog, n.nspname AS table_schema, c.relname AS table_name,
        'PRIMARY KEY' AS constraint_type, 'NO' AS is_deferrable, 'NO' AS initially_deferred,
        'YES' AS enforced FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
        JOIN pg_namespace n ON n.oid = c.relnamespace""",
    "information_schema.key_column_usage": f"""SELECT '{DATABASE}' AS constraint_catalog,
        n.nspname AS constraint_schema, k.conname AS constraint_name,
        '{DATABASE}' AS table_catalog, n.nspname AS table_schema, c.relname AS table_name,
        a.attname AS column_name, list_position(k.conkey, a.attnum)::INTEGER AS ordinal_position,
        NULL::INTEGER AS position_in_unique_constraint
        FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
        JOIN pg_namespace n ON n.oid = c.relnamespace
        JOIN pg_attribute a ON a.attrelid = c.oid AND list_contains(k.conkey, a.attnum)""",
}

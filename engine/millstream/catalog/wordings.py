"""The wording of refusals of sources, properties and formats: one template for each condition."""

from __future__ import annotations

from millstream.model.refusals import ConflictTemplate, Template, templates_in

NAME_TAKEN = ConflictTemplate(
    "Cannot add {noun} '{name}': A {other} with the same name already exists"
)
SOURCE_MISSING = Template("{name} does not exist.")
TYPE_TAKEN = ConflictTemplate(
    "Cannot register custom type '{name}' since it is already registered with type: {types}"
)
TYPE_MISSING = Template("Type {name} does not exist.")
QUERY_ID_TAKEN = ConflictTemplate("Query ID '{query_id}' already exists.")
UNKNOWN_PROPERTIES = Template("Invalid config variable(s) in the WITH clause: {unknown}")
PROPERTY_VALUE = Template("Invalid value {value} for property {property}: {reason}")
TIMESTAMP_FORMAT_ALONE = Template("TIMESTAMP_FORMAT needs the TIMESTAMP property beside it.")
UNKNOWN_FORMAT = Template("Unknown format: {name}")
EMPTY_SCHEMA_NAME = Template(
    "fullSchemaName cannot be empty. Format configuration: {{fullSchemaName=}}"
)
WINDOW_SIZE_MISSING = Template(
    "{kind} windows require 'WINDOW_SIZE' to be provided in the WITH clause. For example: "
    "'WINDOW_SIZE'='10 SECONDS'"
)
QUERY_ID_CHARACTERS = Template("Query IDs may contain only letters, digits and '_': {text}")
QUERY_ID_RESERVED = Template("Query IDs must not start with a reserved prefix: {text}")
FORMAT_TWICE = Template(
    "Cannot supply both '{part}' and 'FORMAT' properties, as 'FORMAT' sets both key and "
    "value formats. Either use just 'FORMAT', or use 'KEY_FORMAT' and 'VALUE_FORMAT'."
)
SCHEMA_NAME_TWICE = Template(
    "Cannot supply both 'VALUE_AVRO_SCHEMA_FULL_NAME' and 'VALUE_SCHEMA_FULL_NAME'."
)
WINDOW_SIZE_ALONE = Template("'WINDOW_SIZE' needs 'WINDOW_TYPE' beside it.")
SESSION_SIZE = Template("'WINDOW_SIZE' should not be set for SESSION windows.")
ILLEGAL_NAME = Template(
    "Illegal argument: Identifier names may only contain alphanumeric values, '_' or '-'. "
    "Got: '{source}'"
)
WINDOWED_WITHOUT_KEY = Template("Windowed sources require a key column.")
HEADERS_TWICE = Template("Schema already contains a HEADERS column.")
HEADER_TWICE = Template("Schema already contains a HEADER('{key}') column.")
TIMESTAMP_TYPE = Template(
    "Timestamp column, `{column}`, should be LONG(INT64), TIMESTAMP, or a String with a "
    "timestamp_format specified"
)
TIMESTAMP_FORMAT_MISSING = Template(
    "A String timestamp field has been specified without also specifying the timestamp_format"
)
TIMESTAMP_FORMAT_MISPLACED = Template(
    "'TIMESTAMP_FORMAT' set in the WITH clause can only be used when the timestamp column in of "
    "type STRING."
)
PARTITION_COLUMN_MISSING = Template(
    "The PARTITION_COLUMN '{column}' is not a key or value column of {source}"
)
PARTITION_COLUMN_TYPE = Template(
    "The PARTITION_COLUMN {column} is of type {type}: the number of a partition is an INT or a"
    " BIGINT"
)
PARTITION_COLUMN_OF_TABLE = Template(
    "{source} is a table, which has each row in the partition of its key: only streams can have a"
    " PARTITION_COLUMN"
)
REPLACED_READ_ONLY = Template(
    "Cannot add {noun} '{name}': CREATE OR REPLACE is not supported on source {noun}s."
)
REPLACED_SHARED = Template("Cannot add {noun} '{name}': several queries write into it.")
REPLACED_WRITTEN = Template("Cannot add {noun} '{name}': {query} writes into it.")
ALTERED_READ_ONLY = Template(
    "Cannot alter {noun} '{source}': ALTER operations are not supported on source {noun}s."
)
ALTERED_WRITTEN = Template(
    "ALTER command is not supported for CREATE ... AS statements: '{source}' is written by "
    "{query_id}."
)
DROPPED_OWN = Template("Cannot drop {name}: it is part of the engine.")
DROPPED_MISSING = Template("{titled} {name} does not exist.")
DROPPED_READ = ConflictTemplate(
    "Cannot drop {name}.\nThe following queries read from this source: [{readers}].\nThe "
    "following queries write into this source: [{writers}].\nYou need to terminate them "
    "before dropping {name}."
)
DROPPED_NEEDED = ConflictTemplate(
    "Cannot drop {name}.\nThe following streams and/or tables read from this source: "
    "[{made}].\nYou need to drop them before dropping {name}."
)
TOPIC_OF_READ_ONLY = Template("Cannot delete topic for read-only source: {source}")
TOPIC_SHARED = ConflictTemplate(
    "Refusing to delete topic. Found other data sources ({others}) using topic {topic}"
)
RESERVED_NAME = Template(
    "'{column}' is a reserved column name. You cannot use it as a name for a column."
)
COLUMN_TWICE = Template("Duplicate column names: {column}")
HEADER_TYPE = Template("Invalid type for {header} column: expected {expected}, got {type}")
REPLACED_DIFFERENT = Template(
    "Cannot add {noun} '{name}': DataSource '{name}' has {what} = {before} which is not upgradeable"
    " to {after}"
)
COLUMN_EXISTS = Template(
    "Cannot add column `{column}` to schema. A column with the same name already exists."
)
FORMAT_AND_SCHEMA = Template(
    "{side} format does not support schema.\nformat: {name}\nschema: "
    "Persistence{{columns={listed}, features=[{features}]}}\nreason: {reason}"
)
FORMAT_AND_WRAPPING = Template(
    "Format '{name}' does not support 'WRAP_SINGLE_VALUE' set to '{wrap}'."
)
RETENTION_OF_TABLE = Template(
    "Invalid config variable in the WITH clause: RETENTION_MS. Non-windowed tables do not support"
    " retention."
)
REGISTRY_NEEDED = Template("{what} needs a Schema Registry, which is not configured")
PARTITIONS_DIFFER = Template(
    "Can't join `{left}` with `{right}` since the number of partitions don't match. `{left}` "
    "partitions = {ours}; `{right}` partitions = {theirs}. Please repartition either one so that "
    "the number of partitions match."
)
PARTITIONS_OF_BRANCHES = Template(
    "`{left}` and `{right}` cannot be read in one query by UNION ALL, because their numbers of "
    "partitions differ. `{left}` partitions = {ours}; `{right}` partitions = {theirs}."
)
TEMPLATES = templates_in(globals())
"""All of them by name."""

"""Error messages of statements that are refused or fail as they are executed: one template each."""

from __future__ import annotations

from millstream.model.refusals import Template, templates_in

ASSERTION_FAILED = Template("Assertion failed: {reason}")
ASSERTED_PROPERTY = Template("Cannot assert unknown topic property: {name}")
ALTER_SYSTEM = Template("ALTER SYSTEM is not supported: settings are per session")
NOT_SET = Template("Cannot unset {name}: it was not set in this session")
EXPLAINED_QUERY_MISSING = Template(
    "Query with id:{query_id} does not exist, use SHOW QUERIES to view the full set of queries."
)
PEEKED_QUERY_MISSING = Template("There is no query {query_id}")
PEEKED_WITHOUT_NODES = Template("Query {query_id} has no nodes to look at")
PEEKED_NODE_MISSING = Template("Query {query_id} has no node {node}")
REPLAYED_FROM_ITSELF = Template("Topic {topic} cannot hold its own dead letters")
EXPLAINED_KIND = Template("The provided statement does not run a ksql query")
DESCRIBED_MISSING = Template("Could not find STREAM/TABLE '{name}' in the Metastore")
EXPLAINED_STAGE = Template("A pull query has no {stage}: it reads the state of persistent queries")
INSERTS_DISABLED = Template("The server has disabled INSERT INTO ... VALUES functionality.")
INSERT_INTO_UNKNOWN = Template("Cannot insert values into an unknown stream/table: `{name}`")
ROWTIME_NEGATIVE = Template("ROWTIME must not be negative, got {rowtime}")
ROWTIME_TOO_LATE = Template("ROWTIME must not be later than {latest}, got {rowtime}")
COPY_OVER_NETWORK = Template("COPY reads local files and is not accepted over a network")
COPY_PROPERTY = Template("COPY has no property {unknown}")
INSERT_INTO_COMPUTED = Template(
    "Cannot {action} {noun} {source}: {query_id} computes its rows and would ignore others."
)
INSERT_INTO_READ_ONLY = Template("Cannot {action} read-only {noun}: {source}")
INSERT_INTO_WINDOWED = Template("Cannot {action} windowed stream/table!")
INSERTED_TWICE = Template("{statement} names a column twice")
INSERTED_PSEUDO_COLUMN = Template("Inserting into column `{name}` is not allowed.")
INSERTED_HEADER = Template("Cannot insert into HEADER columns: {names}")
ROWTIME_UNREADABLE = Template("ROWTIME '{text}' is not a time")
PRIMARY_KEY_NOT_INSERTED = Template(
    "Failed to insert values into '{source}'. Value for primary key column(s) `{key}` is "
    "required for tables"
)
PULL_OF_SOURCE_FAILED = Template("The pull query on {source} failed.")
FILE_COLUMNS = Template("'{path}' has columns that the stream lacks: {unknown}.")
FILE_UNREADABLE = Template("Cannot read '{name}' as {kind}.")
_PUSH_INSTEAD = (
    " See https://cnfl.io/queries for more info."
    "\nAdd EMIT CHANGES if you intended to issue a push query."
)
CLAUSE_OF_PULL_QUERY = Template("Pull queries don't support {clause} clauses." + _PUSH_INSTEAD)
LIMIT_DISABLED = Template(
    "LIMIT clause in pull queries is currently disabled. You can enable them by setting "
    "{limits}=true." + _PUSH_INSTEAD
)
PROCESSOR_OF_PULL = Template("A query without EMIT cannot call the processor '{processor}'.")
PULL_DISABLED = Template(
    "Pull queries are disabled."
    + _PUSH_INSTEAD
    + "\nPlease set {name}=true to enable this feature."
)
PULL_ON_STREAM = Template("Pull queries on streams are disabled.")
ROWS_INTO_UNKNOWN = Template("Cannot insert values into an unknown stream: {name}")
ROWS_INTO_TABLE = Template("Cannot insert into a table")
ROW_REFUSED = Template("Failed to insert into {source}: {bad}")
VALUE_TYPE = Template("Expected type {target} for field `{column}` but got {type}({value})")
VALUE_FAILED = Template("Cannot compute the value of `{column}` as {type}.")
ROWS_UNREADABLE = Template(
    "Cannot insert a value of type {kind}: it is not a table or a list of rows."
)
ROWS_REFUSED = Template("The data cannot be inserted: {given}.")
ROW_UNREADABLE = Template("Cannot insert row {row}{flaw}.")
QUERY_OF_MANY = Template("executemany takes statements without rows.")
ROW_OF_PARAMETERS = Template("Row {row} of the parameters cannot be used: {reason}")
ROW_OF_DATA = Template("Failed to insert row {row} into '{source}'. {reason}")
FILE_FORMAT_UNKNOWN = Template("Cannot tell the format of '{path}' from its name.")
FILE_PATH = Template("Cannot read '{path}': COPY reads local files.")
FILE_MISSING = Template("Cannot read '{path}': there is no such file.")

TEMPLATES = templates_in(globals())
"""All templates by name."""

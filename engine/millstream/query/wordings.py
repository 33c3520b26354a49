"""The wording of refusals of pull queries: one template for each condition."""

from __future__ import annotations

from millstream.model.refusals import Template, templates_in

KEY_TYPE = Template(
    "{expression} can not be converted to the type of the key column: {column} {type} KEY"
)
KEY_IS_NULL = Template("Primary key columns can not be NULL: {expression}")
KEY_BOUND = Template("Bound on key columns '[{listed}]' must currently be '='. ")
KEY_NOT_IN_WHERE = Template("WHERE clause missing key column for disjunct: {shown}")
KEYS_NOT_IN_WHERE = Template(
    "Multi-column sources must specify every key in the WHERE clause. Specified: "
    "[{specified}] Expected: [{expected}]."
)
KEY_COMPARED_WITH_COLUMN = Template(
    "A comparison must be between a key column and a resolvable expression."
)
KEY_WITHIN_EXPRESSION = Template("A comparison must directly reference a key column.")
FETCHED_WITHOUT_END = Template(
    "A push query without LIMIT does not end, so its rows cannot be fetched at once"
)
ONE_SELECT = Template("A pull query is one SELECT")
RECURSION = Template("WITH RECURSIVE is not allowed in a pull query")
FUNCTION_NOT_ALLOWED = Template("Function {name} is not allowed in a pull query")
NESTED_TOO_DEEP = Template("The pull query is nested too deep.")
NOT_QUERIED = Template("Only streams and tables can be queried, not {sql}")
FOR_VERSION = Template("FOR VERSION is not allowed in a pull query")
UNREADABLE = Template("Cannot read the pull query: {first}")
NOT_ALLOWED = Template("{name} is not allowed in a pull query")
WHERE_OF_PULL_QUERY = Template("Error in WHERE expression: {message}\nStatement: {expression}")
COLUMN_OF_LOG = Template(
    "Pull queries don't support the following columns in {clause} clauses: {columns}"
)
KEY_CONDITIONS_COMBINED = Template(
    "A comparison condition on the key column cannot be combined with other comparisons such as"
    " an IN predicate"
)
WHERE_MISSING = Template(
    "Missing WHERE clause.  See https://cnfl.io/queries for more info.\nAdd EMIT CHANGES if you"
    " intended to issue a push query."
)
SCAN_DISABLED = Template(
    "Query requires table scan to be enabled. Table scans can be enabled by setting"
    " ksql.query.pull.table.scan.enabled=true"
)
BOUNDS_COMBINED = Template("`{expression}` cannot be combined with other {bound} bounds")
BOUND_UNSUPPORTED = Template("Unsupported {bound} bounds: {direction}")
BOUNDS_TWICE = Template("Duplicate {bound} bounds on: {direction}: [{listed}]")
ANSWER_TOO_LONG = Template("The answer has more than {most} {unit}.")
ROWS_WITHOUT_COLUMN = Template("{table} has no column that is asked for")
ROWS_UNREADABLE = Template("{table} cannot be read")
NOT_QUERYABLE = Template(
    "The `{source}` table isn't queryable. To derive a queryable table, you can do 'CREATE "
    "TABLE QUERYABLE_{source} AS SELECT * FROM {source}'. See "
    "https://cnfl.io/queries for more info."
)
NO_TIME = Template("'{text}' is no {type}")
PULL_FAILED = Template("The pull query failed.")
QUERY_FAILED = Template("The query failed.")
STORE_MISSING = Template("{owner} has no store {store}.")
STORE_RANGE = Template("{store} is a store, which has no history")
TOPIC_NOT_FOUND = Template("Could not find topic '{topic}'")
TOPIC_IN_TWO_RANGES = Template("Topic {topic} is read in two different ranges.")

TEMPLATES = templates_in(globals())
"""All of them by name."""

"""The wording of refusals that arise in more than one place: one template for each condition.

The texts are those that clients of ksqlDB look for, so that a parameter may change and nothing
else. A template is called with its parameters and returns the error to raise.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from millstream.model.errors import Span, StatementError


@dataclass(frozen=True, slots=True)
class Template:
    """A message with `{parameters}`; `pattern` matches what it makes, behind any prefix."""

    text: str

    def __call__(
        self, *, hint: str = "", detail: str = "", span: Span | None = None, **parameters: object
    ) -> StatementError:
        """The error; KeyError for a parameter that is missing."""
        return StatementError(self.text.format_map(parameters), hint=hint, detail=detail, span=span)

    @property
    def pattern(self) -> re.Pattern[str]:
        """What every message of this template matches from its start to its end."""
        parts = re.split(r"(\{\w+\})", self.text)
        return re.compile(
            "".join(".*" if part[:1] == "{" else re.escape(part) for part in parts), re.DOTALL
        )


UNKNOWN_ALIAS = Template("{place}'{alias}' is not a valid stream/table name or alias.")
UNRESOLVED_COLUMN = Template("{place}{clause} column '{column}' cannot be resolved.{why}")
AMBIGUOUS_COLUMN = Template(
    "Exception while preparing statement: {place}Column '{column}' is ambiguous. Could be"
    " {options}."
)
NOT_BOOLEAN = Template(
    "Type error in {clause} expression: Should evaluate to boolean but is {expression} ({type})"
    " instead."
)
UNTYPED_NULL = Template(
    "Can't infer a type of null. Please explicitly cast it to a required type, e.g. CAST(null AS"
    " VARCHAR)."
)
AGGREGATE_MISPLACED = Template(
    "{clause} does not support aggregate functions: {function} is an aggregate function."
)
AGGREGATES_NESTED = Template("Aggregate functions can not be nested: {call}")
TABLE_FUNCTION_MISPLACED = Template(
    "{clause} does not support table functions: {function} is a table function."
)
TABLE_FUNCTIONS_NESTED = Template("Table functions cannot be nested: {function}")
TABLE_FUNCTION_IN_CASE = Template("Table functions cannot be used in CASE: {function}")
TABLE_FUNCTION_AGGREGATED = Template("Table functions cannot be used with aggregations.")
VALUE_FORMAT_CLAUSE = Template(
    "Source(s) {sources} are using the '{format}' value format. This format does not yet support"
    " {clause}."
)
NO_PRIMARY_KEY = Template("Tables require a PRIMARY KEY. Please define the PRIMARY KEY.")
MAP_IN_KEY = Template(
    "Map keys, including types that contain maps, are not supported as they may lead to unexpected"
    " behavior due to inconsistent serialization. Key column name: `{column}`. Column type:"
    " {type}. See https://github.com/confluentinc/ksql/issues/6621 for more."
)
TIMESTAMP_MISSING = Template(
    "The TIMESTAMP column set in the WITH clause does not exist in the schema: '{column}'"
)
FOREIGN_SETTINGS = Template("{format} does not support the following configs: [{configs}]")
WRAPPED_COLUMNS = Template("'WRAP_SINGLE_VALUE' is only valid for single-field value schemas")
EMPTY_DELIMITER = Template(
    "Failed to prepare statement: Configuration {property} is invalid: Delimiter cannot be empty,"
    " if you meant to have a tab or space for delimiter, please use the special values 'TAB' or"
    " 'SPACE'\nExample valid value: ';'"
)
LONG_DELIMITER = Template(
    "Failed to prepare statement: Configuration {property} is invalid: Invalid delimiter value:"
    " '{delimiter}'. Delimiter must be a single character or TAB,SPACE\nExample valid value: ';'"
)
INVALID_PROPERTY = Template("Configuration {property} is invalid: {reason}")
WRONG_KIND = Template("Incompatible data source type is {kind}, but statement was {statement}")
WITHIN_MISSING = Template(
    "{left} and {right}: Stream-Stream joins must have a WITHIN clause specified. None was"
    " provided."
)
WITHIN_MISPLACED = Template(
    "A window definition was provided for a {left}-{right} join. These joins are not windowed."
    " Please drop the window definition (i.e. the WITHIN clause) and try to execute your join"
    " again."
)
WINDOW_TOO_LONG = Template(
    "The lengths of {clause} are {ms} milliseconds together, which is more than {longest}."
)
VALUE_COUNT = Template(
    "Failed to insert values into '{source}'. Expected a value for each column. Expected Columns:"
    " [{columns}]. Got {count}."
)
UNKNOWN_INSERT_COLUMN = Template("Column name `{column}` does not exist.")
COLUMNS_CHANGED = Template(
    "{refused}The following columns are changed, missing or reordered: [{columns}]"
)
UNKNOWN_QUERY = Template("Unknown queryId: {query}")
UNKNOWN_TOPIC = Template("Kafka topic does not exist: {topic}")
TOPIC_DIFFERS = Template(
    "A Kafka topic with the name '{topic}' already exists, with different partition/replica"
    " configuration than required: it has {there} partitions, the statement says {wanted}"
)
TEMPLATES = {name: value for name, value in globals().items() if isinstance(value, Template)}
"""All of them by name."""

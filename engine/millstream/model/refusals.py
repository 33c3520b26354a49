"""The wording of refusals: one template for each condition.

Clients of ksqlDB search for these texts, so only their parameters may vary. Calling a template with
its parameters returns the error to raise. Templates that a single room uses are in its
`wordings.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from string import Formatter

from millstream.model.errors import ConflictError, Span, StatementError


@dataclass(frozen=True, slots=True)
class Wording:
    """A message with `{parameters}`."""

    text: str

    @property
    def parameters(self) -> frozenset[str]:
        """The parameters that a call must pass."""
        return frozenset(name for _, name, _, _ in Formatter().parse(self.text) if name)


@dataclass(frozen=True, slots=True)
class Template(Wording):
    """The wording of a statement that cannot be accepted."""

    def __call__(
        self,
        *,
        hint: str = "",
        detail: str = "",
        span: Span | None = None,
        code: str | None = None,
        **parameters: object,
    ) -> StatementError:
        """The error; raises KeyError for a missing parameter."""
        message = self.text.format_map(parameters)
        error = StatementError(message, hint=hint, detail=detail, span=span, code=code)
        error.parameters = parameters
        return error


@dataclass(frozen=True, slots=True)
class ConflictTemplate(Wording):
    """The wording of a statement that conflicts with existing objects."""

    def __call__(
        self,
        *,
        hint: str = "",
        detail: str = "",
        span: Span | None = None,
        code: str | None = None,
        **parameters: object,
    ) -> ConflictError:
        """The error; raises KeyError for a missing parameter."""
        message = self.text.format_map(parameters)
        error = ConflictError(message, hint=hint, detail=detail, span=span, code=code)
        error.parameters = parameters
        return error


def templates_in(names: Mapping[str, object]) -> dict[str, Wording]:
    """The templates of a module by name."""
    return {name: value for name, value in names.items() if isinstance(value, Wording)}


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
SCHEMA_NOT_OF_COLUMNS = Template("Schema {id} does not have the columns: {reason}")
SCHEMA_NOT_OF_FORMAT = Template("Schema is not compatible with {format}: {reason}")
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
    " [{columns}]. Got {count} values."
)
UNKNOWN_INSERT_COLUMN = Template("Column name `{column}` does not exist.")
COLUMNS_CHANGED = Template(
    "Cannot add {noun} '{name}': The following columns are changed, missing or reordered:"
    " [{columns}]"
)
UNKNOWN_QUERY = Template("Unknown queryId: {query}")
UNKNOWN_TOPIC = Template("Kafka topic does not exist: {topic}")
TOPIC_DIFFERS = Template(
    "A Kafka topic with the name '{topic}' already exists, with different partition/replica"
    " configuration than required: it has {there} partitions, the statement says {wanted}"
)
NO_SIGNATURE = Template(
    "Function '{name}' does not accept parameters ({arguments}).\nValid alternatives are:\n"
    "{alternatives}"
)
LAMBDA_RESULT = Template(
    "Function '{name}' expects a lambda that returns {substitute}, but it returns {body}."
)
AMBIGUOUS_SIGNATURE = Template(
    "Function '{name}' cannot be resolved due to ambiguous method parameters ({arguments})."
)
SIGNATURE = Template("The signature of {name} cannot be used: {signature}")
CALL_TOO_DEEP = Template("The call of {function} is nested too deep to be computed.")
SETTING_VALUE = Template("Invalid value '{value}' for property {known}: expected {allowed}")
SETTING_MISSING = Template("Unknown property: {name}")
SETTING_OF_INSTANCE = Template("{name} is a setting of an instance, not of a session")
SETTING_UNSUPPORTED = Template("Property {name} is not supported: {reason}")
SETTING_PROHIBITED = Template(
    "One or more properties overrides set locally are prohibited by the KSQL server (use "
    "UNSET to reset their default value): [{name}]"
)
TIME_FORMAT_QUOTE = Template("Invalid time format '{text}': a quote is not closed")
TIME_FORMAT_CLOSED = Template("Invalid time format '{text}': ']' without a '[' before it")
TIME_FORMAT_COUNT = Template("Invalid time format '{text}': {flaw}")
TIME_FORMAT_RESERVED = Template("Invalid time format '{text}': '{char}' is reserved, quote it")
TIME_FORMAT_LETTER = Template("Unknown pattern letter: {char} in time format '{text}'")
TEMPLATES = templates_in(globals())
"""All of them by name."""

"""The families of refusals by their wording: every refused mutant belongs to exactly one."""

from __future__ import annotations

import re

from millstream.model.refusals import TEMPLATES, Template

_PREFIX = re.compile(
    r"(Failed to prepare statement: line \d+:\d+: |Error in (WHERE|HAVING) expression: |"
    r"Invalid Select: |Invalid Predicate: |Invalid expression: )"
)
_TEXTS = {
    "unknown source": "{name} does not exist.",
    "unknown function": "Can't find any functions with the name '{name}'",
    "no signature": "Function '{name}' does not accept parameters ({types}).\nValid {rest}",
    "ambiguous signature": "Function '{name}' cannot be resolved due to ambiguous {rest}",
    "constant argument": "Parameter {n} passed to function {name} must be a literal constant, {x}",
    "comparison": "Cannot compare {left} to {right} with {operator}.",
    "comparison with NULL": "Comparison with NULL not supported: {comparison}",
    "arithmetic": "Error processing expression: {x}. Unsupported arithmetic types. {types}",
    "arithmetic on NULL": "Error processing expression: {x}. Arithmetic on types {types} are not "
    "supported.",
    "negation": "{place}Unary minus needs a number, not {type}.",
    "logic": "{what} should be BOOLEAN but {x} is {type}.",
    "case types": "Invalid Case expression. Type for all 'THEN' clauses should be the same.{rest}",
    "case default": "Invalid Case expression. Type for the default clause should be {rest}",
    "case of NULL": "Invalid Case expression. All case branches have NULL type",
    "cast": "Cast of {type} to {target} is not supported",
    "list types": "operator does not exist: {types}",
    "list texts": "invalid input syntax for type {type}: {text}",
    "like": "The column type for Like condition must be VARCHAR. The column type is {type}",
    "struct": "Expected STRUCT type, got: {type}",
    "field": "Could not find field '{name}' in '{struct}'.",
    "star of no struct": "Cannot expand {x}->*: it is {type}, not a STRUCT.",
    "subscript": "Subscript expression {x} needs an ARRAY or a MAP, but {y} is {type}.",
    "index": "Array index must be a number: {x}",
    "map index": "The keys of {map} are {type}, but {x} is {other}.",
    "empty array": "Array constructor cannot be empty. {rest}",
    "empty map": "Map constructor cannot be empty. {rest}",
    "NULL elements": "Cannot construct {what} with all NULL {parts}. {rest}",
    "struct fields": "Duplicate field names found in STRUCT: {x}",
    "lambda names": "Duplicate lambda arguments are not allowed: {names}",
    "decimal digits": "DECIMAL precision must be >= scale: {type}",
    "unknown type": "Cannot resolve unknown type: {name}",
    "hidden bound": "Unknown column {name}.",
    "bound outside SELECT": "Window bounds column {name} can only be used in the SELECT clause of "
    "windowed aggregations",
    "grouping without aggregate": "GROUP BY requires aggregate functions in either the SELECT or "
    "HAVING clause.",
    "aggregate without grouping": "Use of aggregate functions requires a GROUP BY clause. {rest}",
    "clause without grouping": "{clause} requires a GROUP BY clause.",
    "ungrouped": "Non-aggregate {clause} not part of GROUP BY: {rest}",
    "twice": "Duplicate {clause} expression: {x}",
    "aggregate on table": "The aggregation function{rest} cannot be applied to a table source, "
    "only to a stream source.",
    "aggregate in sessions": "The aggregation function {name} cannot be used with SESSION {rest}",
    "final": "EMIT FINAL is only supported for windowed aggregations.",
    "window on": "WINDOW clause is not supported on {what}",
    "window size": "The size of a window must be greater than zero.",
    "window advance": "ADVANCE BY must be greater than zero and not greater than SIZE.",
    "retention": "RETENTION must not be shorter than the size and the grace period {rest}",
    "partitioning with others": "PARTITION BY cannot be combined with {other}.",
    "partitioning": "PARTITION BY is {what} on {where}.",
    "table function on table": "Table source is not supported with table functions",
    "limit": "{statement} statements don't support LIMIT clause.",
    "kind of result": "Invalid result type. Your SELECT query produces a {kind}. {rest}",
    "name taken": "Cannot add {kind} '{name}': A {other} with the same name already exists",
    "replaced source": "Cannot add {kind} '{name}': CREATE OR REPLACE is not supported on {rest}",
    "reserved name": "'{name}' is a reserved column name. You cannot use it as a name for a "
    "column.",
    "reserved alias": "`{name}` is a reserved column name. You cannot use it as an alias for a "
    "column.",
    "reserved in select": "Reserved column name in select: `{name}`. Please {rest}",
    "column twice": "Duplicate column names: {names}",
    "value columns twice": "Duplicate {kind} columns found in schema: {columns}",
    "no values": "The projection contains no value columns.",
    "key twice": "The projection contains a key column{rest}",
    "key missing": "Key missing from projection (ie, SELECT). {rest}",
    "primary key missing": "Primary key column{s} missing in projection. {rest}",
    "key marker": "Line: {line}, Col: {column}: Column `{name}` is a '{marker}' column: {rest}",
    "no columns": "No columns supplied.",
    "windowed key": "Windowed sources require a key column.",
    "source table": "Source tables cannot be windowed.",
    "header type": "Invalid type for {marker} column: expected {type}, got {other}",
    "header twice": "Schema already contains a HEADER{rest}",
    "sink schema": "Incompatible schema between results and sink.{rest}",
    "sink headers": "Cannot insert into {name} because it has header columns",
    "self join": "Can not join '{name}' to '{other}': self joins are not yet supported.",
    "source twice": "N-way joins do not support multiple occurrences of the same source. {rest}",
    "join side": "Invalid comparison expression '{x}' in join '{join}'. Each side of {rest}",
    "join source": "A join criteria is expected to reference the source {rest}",
    "join condition": "Invalid join condition: {rest}",
    "join order": "Invalid join order: {rest}",
    "join kind": "Invalid join type encountered: {rest}",
    "foreign key": "{kind} OUTER JOIN on a foreign key is not supported",
    "foreign key on windows": "Foreign-key table-table joins are not supported on windowed {rest}",
    "join by value": "Cannot repartition a TABLE source. {rest}",
    "windowed join": "Can not join windowed source to non-windowed source.{rest}",
    "moved windows": "Implicit repartitioning of windowed sources is not supported. {rest}",
    "unknown property": "Invalid config variable(s) in the WITH clause: {names}",
    "both formats": "Cannot supply both '{part}' and 'FORMAT' properties, {rest}",
    "unknown format": "Unknown format: {name}",
    "no format": "Statement is missing the 'VALUE_FORMAT' property from the WITH clause.",
    "no topic": 'Missing required property "KAFKA_TOPIC" which has no default value.',
    "timestamp format": "TIMESTAMP_FORMAT needs the TIMESTAMP property beside it.",
    "timestamp type": "Timestamp column, {rest}",
    "format and schema": "{part} format does not support schema.{rest}",
    "key format": "Key format specified for stream without key columns.",
    "wrap": "Format '{name}' does not support 'WRAP_SINGLE_VALUE' set to '{value}'.",
    "intermediate type": "One of the functions used in the statement has an intermediate {rest}",
    "session size": "'WINDOW_SIZE' should not be set for SESSION windows.",
    "no window size": "{kind} windows require 'WINDOW_SIZE' to be provided in the WITH clause. "
    "For example: 'WINDOW_SIZE'='10 SECONDS'",
    "window size alone": "'WINDOW_SIZE' needs 'WINDOW_TYPE' beside it.",
    "syntax": "line {n}: Syntax Error{rest}",
}
FAMILIES = {name: Template(text) for name, text in _TEXTS.items()} | TEMPLATES


def families_of(message: str) -> list[str]:
    """The families that a message belongs to, whatever clause it arose in."""
    while found := _PREFIX.match(message):
        message = message[found.end() :]
    return [name for name, family in FAMILIES.items() if family.pattern.fullmatch(message)]

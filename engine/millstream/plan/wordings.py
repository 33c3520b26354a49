"""The wording of refusals of queries that cannot be planned: one template for each condition."""

from __future__ import annotations

from millstream.model.refusals import Template, templates_in

UNION_UNSUPPORTED = Template("UNION ALL is not supported for {what}.")
UNION_COLUMNS = Template(
    "The SELECTs of UNION ALL must have columns of the same types, in the same order: {ours} is "
    "not {theirs}."
)
UNION_KEYS = Template(
    "The SELECTs of UNION ALL must have their key columns in the same places, and the same window. "
    "Key of the first one: {ours}. Key of this one: {theirs}."
)
WINDOW_SIZE_ZERO = Template("The size of a window must be greater than zero.")
ADVANCE_TOO_LONG = Template("ADVANCE BY must be greater than zero and not greater than SIZE.")
RETENTION_TOO_SHORT = Template(
    "RETENTION must not be shorter than the size and the grace period together: "
    "{retention} ms are less than {size} + {grace} ms."
)
GROUP_BY_MISSING = Template(
    "Use of aggregate functions requires a GROUP BY clause. Aggregate function(s): {used}"
)
GROUPED_TWICE = Template("Duplicate GROUP BY expression: {text}")
WINDOW_ON_WINDOWED = Template(
    "WINDOW clause is not supported on sources that are windowed already."
)
PARTITIONED_AND_GROUPED = Template("PARTITION BY cannot be combined with GROUP BY.")
FINAL_WITHOUT_WINDOW = Template("EMIT FINAL is only supported for windowed aggregations.")
SUPPRESS_DISABLED = Template(
    "Suppression is currently disabled. You can enable it by setting {setting} to true"
)
LAMBDAS_DISABLED = Template(
    "Lambda expressions are currently disabled. You can enable them by setting {setting} to true"
)
HEADER_COLUMNS_DISABLED = Template(
    "Cannot create Stream because schema with headers columns is disabled."
)
LIMIT_OF_STATEMENT = Template("{form} statements don't support LIMIT clause.")
TABLE_FUNCTION_ON_TABLE = Template("Table source is not supported with table functions")
PARTITIONED_TABLE = Template("PARTITION BY is only supported on streams, not on tables.")
QUERY_ON_WINDOWED_TABLE = Template("KSQL does not support persistent queries on windowed tables.")
WINDOW_WITHOUT_GROUP_BY = Template("WINDOW clause requires a GROUP BY clause.")
PARTITIONED_AND_AGGREGATED = Template("PARTITION BY cannot be combined with aggregate functions.")
PARTITIONED_BY_NULL_AND_MORE = Template(
    "PARTITION BY NULL cannot be combined with other expressions."
)
PARTITIONED_TWICE = Template("Duplicate PARTITION BY expression: {text}")
CONSTANT_NEEDED = Template(
    "Parameter {number} passed to function {name} must be a literal constant, but was "
    "expression: '{expression}'"
)
FUNCTION_MISSING = Template("Can't find any functions with the name '{name}'")
LAMBDA_ARGUMENTS_TWICE = Template("Duplicate lambda arguments are not allowed: {names}")
CALL_IMPOSSIBLE = Template("Function '{name}' cannot be called so: {error}")
CAST_IMPOSSIBLE = Template("Cast of {source} to {target} is not supported")
AT_TIME_ZONE = Template("AT TIME ZONE is not supported: {expression}.")
OPERATOR_MISSING = Template("operator does not exist: {target} = {type} ({source})")
TOPIC_PROPERTY_MISSING = Template(
    'Missing required property "KAFKA_TOPIC" which has no default value.'
)
VALUE_FORMAT_MISSING = Template(
    "Statement is missing the 'VALUE_FORMAT' property from the WITH clause."
)
WINDOWED_SOURCE_TABLE = Template("Source tables cannot be windowed.")
COLUMNS_MISSING = Template("No columns supplied.")
INFERENCE_IMPOSSIBLE = Template(
    "{part}_FORMAT should support schema inference when {part}_SCHEMA_ID is provided. "
    "Current format is {name}."
)
COLUMNS_AND_SCHEMA_ID = Template(
    "Table elements and {part}_SCHEMA_ID cannot both exist for create statement."
)
AGGREGATE_MISSING = Template(
    "GROUP BY requires aggregate functions in either the SELECT or HAVING clause."
)
HAVING_WITHOUT_GROUP_BY = Template("HAVING requires a GROUP BY clause.")
UNGROUPED_SELECT = Template(
    "Non-aggregate SELECT expression(s) not part of GROUP BY: {listed}\nEither add the column(s) "
    "to the GROUP BY or remove them from the SELECT."
)
UNGROUPED_HAVING = Template(
    "Non-aggregate HAVING expression not part of GROUP BY: {expression}\nEither add the column(s) "
    "to the GROUP BY or remove them from the HAVING."
)
WINDOW_ON_TABLE = Template("Windowing not supported for table aggregations.")
AGGREGATE_ON_TABLE = Template(
    "The aggregation function{plural} {refused} cannot be applied to a table source, only "
    "to a stream source."
)
UNKNOWN_BOUND = Template("Error in WHERE expression: Unknown column {column}.")
AGGREGATE_IN_SESSIONS = Template(
    "The aggregation function {function} cannot be used with SESSION windows: its states "
    "cannot be merged."
)
BOUND_OUTSIDE_SELECT = Template(
    "Window bounds column {column} can only be used in the SELECT clause of windowed aggregations"
    " and can not be passed to aggregate functions.\nSee"
    " https://github.com/confluentinc/ksql/issues/4397"
)
UNREADABLE_TIMESTAMP = Template("Failed to parse timestamp '{text}'")
INTERMEDIATE_TYPE = Template(
    "One of the functions used in the statement has an intermediate type that the value "
    "format can not handle. Please remove the function or change the format."
)
JOIN_TYPES_DIFFER = Template(
    "Invalid join condition: types don't match. Got {side}{{{type}}} = {side_2}{{{type_2}}}."
)
JOIN_SIDE = Template(
    "Invalid comparison expression '{text}' in join '{whole}'. Each side of the join "
    "comparision must contain references from exactly one source."
)
STREAM_TABLE_JOIN_KIND = Template(
    "Invalid join type encountered: {written}. Stream-table joins are INNER or LEFT."
)
STREAM_TABLE_FULL_JOIN = Template("Full outer joins between streams and tables are not supported.")
STREAM_TABLE_JOIN_KEY = Template(
    "Invalid join condition: stream-table joins require to join on the table's primary key. {got}"
)
TABLE_TABLE_JOIN_KEY = Template(
    "Invalid join condition: table-table joins require to join on the primary key of the "
    "right input table. {got}"
)
FOREIGN_KEY_AMONG_MANY = Template(
    "Invalid join condition: foreign-key table-table joins are not supported as part of "
    "n-way joins. {got}"
)
FOREIGN_KEY_ON_WINDOWS = Template(
    "Foreign-key table-table joins are not supported on windowed tables."
)
FOREIGN_KEY_JOIN_KIND = Template("{kind} OUTER JOIN on a foreign key is not supported")
ONE_SIDE_WINDOWED = Template(
    "Can not join windowed source to non-windowed source.\n{left}\n{right}"
)
WINDOWS_DIFFER = Template(
    "Incompatible windowed sources.\nLeft source: {left}\nRight source: {right}\nSession "
    "windowed sources can only be joined to other session windowed sources, and may still "
    "not result in expected behaviour as session bounds must be an exact match for the "
    "join to work\nHopping and tumbling windowed sources can only be joined to other "
    "hopping and tumbling windowed sources"
)
JOIN_ORDER = Template(
    "Invalid join order: table-stream joins are not supported; only stream-table joins. "
    "Got {alias} {written} {alias_2}."
)
JOIN_ON_SEVERAL = Template(
    "Invalid join condition: joins on multiple conditions are not yet supported. Got {text}."
)
JOIN_ON_INEQUALITY = Template("Invalid join condition: only equality is supported. Got {text}.")
JOIN_SOURCE = Template(
    "A join criteria is expected to reference the source (`{alias}`) in the FROM clause, "
    "instead the right source references `{alias_2}` and the left source references "
    "`{alias_3}`"
)
WINDOWS_MOVED = Template(
    "Implicit repartitioning of windowed sources is not supported. See "
    "https://github.com/confluentinc/ksql/issues/4385."
)
TABLE_MOVED = Template(
    "Cannot repartition a TABLE source. If this is a join, make sure that the criteria "
    "uses the TABLE's key column {columns}."
)
KEY_SELECTED_UNDER_NAMES = Template(
    "The projection contains a key column (`{column}`) more than once, aliased as: {names}."
)
PRIMARY_KEY_NOT_SELECTED = Template(
    "Primary key column{plural} missing in projection. For foreign-key table-table joins, "
    "the projection must include all primary key columns from the left input table "
    "(`{table}`). Missing column{plural}: {listed}."
)
KEY_SELECTED_TWICE = Template("The projection contains a key column more than once: {listed}.")
INVALID_INPUT = Template('invalid input syntax for type {wanted}: "{text}".')
INVALID_NUMBER = Template("Invalid numeric literal: {text}")
NEGATED_LITERAL = Template("Unary minus needs a number, not {literal}.")
EMPTY_ARRAY = Template(
    "Array constructor cannot be empty. Please supply at least one element (see "
    "https://github.com/confluentinc/ksql/issues/4239)."
)
EMPTY_MAP = Template(
    "Map constructor cannot be empty. Please supply at least one key value pair (see "
    "https://github.com/confluentinc/ksql/issues/4239)."
)
STRUCT_NEEDED = Template("Expected STRUCT type, got: {struct} ({source}->{name}).")
FIELD_MISSING = Template("Could not find field '{name}' in '{source}'.")
ELEMENTS_OF_NULL = Template(
    "Cannot construct {what}. Please cast one of them (see "
    "https://github.com/confluentinc/ksql/issues/4239)."
)
SUBSCRIPT_IMPOSSIBLE = Template("Subscript expression ({source}) do not apply to {type}.")
INDEX_TYPE = Template("Array index must be a number: {source}, but {index} is {kind}.")
MAP_INDEX_TYPE = Template("The keys of {source} are {key}, but {index} is {kind}.")
COMPARED_WITH_NULL = Template("Comparison with NULL not supported: {left} {operator} {right}")
COMPARED_TYPES = Template(
    "Cannot compare {left} ({left_type}) to {right} ({right_type}) with {operators}."
)
ARITHMETIC_ON_NULL = Template(
    "Error processing expression: {source}. Arithmetic on types {left} and {right} are "
    "not supported."
)
ARITHMETIC_TYPES = Template(
    "Error processing expression: {source}. Unsupported arithmetic types. {left} {right}"
)
BOOLEAN_NEEDED = Template("{what} should be BOOLEAN but {source} is {type}.")
NO_VALUE_COLUMNS = Template("The projection contains no value columns.")
KEY_COLUMNS_TWICE = Template("Duplicate key columns found in schema: {columns}")
VALUE_COLUMNS_TWICE = Template("Duplicate value columns found in schema: {distinct}")
RESERVED_ALIAS = Template(
    "`{given}` is a reserved column name. You cannot use it as an alias for a column."
)
RESERVED_IN_SELECT = Template(
    "Reserved column name in select: `{name}`. Please remove or alias the column."
)
EXPANDED_NO_STRUCT = Template("Cannot expand {text}->*: it is {struct}, not a STRUCT.")
RESULT_KIND = Template(
    "Invalid result type. Your SELECT query produces a {kind}. Please use CREATE {kind} AS "
    "SELECT statement instead."
)
SINK_MISSING = Template("Sink does not exist for the INSERT INTO statement: {name}")
SINK_IS_TABLE = Template("INSERT INTO can only be used to insert into a stream. {sink} is a table.")
SINK_READ_ONLY = Template("Cannot insert into read-only stream: {sink}")
SINK_WITH_HEADERS = Template("Cannot insert into {sink} because it has header columns")
SINK_KIND = Template(
    "Incompatible data sink and query result. Data sink ({sink}) type is {kind} but select "
    "query result is {result}."
)
SINK_WINDOW = Template(
    "Incompatible windows: the keys of {sink} do not carry the window of the result."
)
SINK_SCHEMA = Template(
    "Incompatible schema between results and sink.\nResult schema is {ours}\nSink schema "
    "is {schema}"
)
KEY_FORMAT_WITHOUT_KEY = Template("Key format specified for stream without key columns.")
HISTORY_KEPT_RUNNING = Template(
    "A query that keeps running cannot read {source} in a part of its history."
)
SOURCE_JOINED_TWICE = Template(
    "N-way joins do not support multiple occurrences of the same source. Source: '{source}'"
)
ALIAS_TWICE = Template("The alias {alias} is used for two sources of the query.")
SELF_JOIN = Template("Can not join '{source}' to '{source}': self joins are not yet supported.")
UNKNOWN_TYPE = Template("Cannot resolve unknown type: {name}")
FIELDS_TWICE = Template("Duplicate field names found in STRUCT: '{field}' and '{again}'")
DECIMAL_PRECISION = Template("DECIMAL precision must be >= 1: DECIMAL({precision},{scale})")
DECIMAL_SCALE = Template("DECIMAL precision must be >= scale: DECIMAL({precision},{scale})")
NEGATED_TYPE = Template(
    "Error processing expression: {expression}. Unary minus needs a number, not {type}."
)
ESCAPE_AT_END = Template("The pattern {source} ends with the escape character.")
CASE_WITH_OPERAND = Template("Only searched case is supported: CASE WHEN <condition> THEN …")
CASE_TYPES = Template(
    "Invalid Case expression. Type for all 'THEN' clauses should be the same.\nTHEN expression"
    " '{branch}' has type: {type}.\nPrevious THEN expression(s) type: {then}."
)
WHEN_TYPE = Template("WHEN operand type should be boolean.\nType for '{source}' is {type}")
CASE_OF_NULL = Template("Invalid Case expression. All case branches have NULL type")
LIKE_TYPE = Template(
    "The column type for Like condition must be VARCHAR. The column type is {type}: {expression}"
)
CASE_DEFAULT_TYPE = Template(
    "Invalid Case expression. Type for the default clause should be the same as for 'THEN' "
    "clauses.\nTHEN type: {then}.\nDEFAULT type: {default}."
)
UPGRADE_OF_NODE = Template("Cannot upgrade '{name}': upgrades not yet supported for {what}.")
KEY_NOT_SELECTED = Template(
    "Key missing from projection (ie, SELECT). See https://cnfl.io/2LV7ouS.\nThe query used to "
    "build `{sink}` must include the {what}{plural} {keys} in its projection (eg, SELECT "
    "{example}...).{synthetic}"
)
PROCESSOR_UNKNOWN = Template("There is no processor '{processor}'.")
PROCESSOR_OVER_TABLE = Template(
    "A processor of batches gets the rows of a stream, and {source} is a table."
)
PROCESSOR_OVER_WINDOWS = Template("A processor cannot read {source}, whose keys have windows.")
PROCESSOR_OVER_ONE_TWICE = Template("PROCESS has the stream {source} twice.")
BATCHES_OF_SEVERAL = Template("A processor of batches reads one stream: {processor} is one.")
TEMPLATES = templates_in(globals())
"""All of them by name."""

"""What a pull query beyond the dialect may be made of: nodes, and functions by their names."""

from __future__ import annotations

from sqlglot import exp

_AGGREGATES = """
ANY_VALUE ARG_MAX ARG_MIN ARRAY_AGG AVG BOOL_AND BOOL_OR APPROX_DISTINCT APPROX_QUANTILE CORR COUNT
COUNT_IF COVAR_POP COVAR_SAMP FIRST GROUP_CONCAT HISTOGRAM LAST LIST LOGICAL_AND LOGICAL_OR MAX
MAX_BY MEDIAN MIN MIN_BY MODE PERCENTILE_CONT PERCENTILE_DISC QUANTILE QUANTILE_CONT STDDEV
STDDEV_POP STDDEV_SAMP STRING_AGG SUM VARIANCE VARIANCE_POP VAR_POP VAR_SAMP
"""
_WINDOWS = """
CUME_DIST DENSE_RANK FIRST_VALUE LAG LAST_VALUE LEAD NTH_VALUE NTILE PERCENT_RANK RANK ROW_NUMBER
"""
_SCALARS = """
ABS ACOS ARRAY ARRAY_CONTAINS ARRAY_LENGTH ARRAY_SIZE ASIN ATAN ATAN2 CBRT CEIL CEILING COALESCE
CONCAT CONCAT_WS CONTAINS COS COT CURRENT_DATE CURRENT_TIMESTAMP DATE DATE_ADD DATE_DIFF DATE_PART
DATE_TRUNC DATEDIFF DAY DAY_OF_MONTH DAY_OF_WEEK DAY_OF_YEAR DEGREES ENDS_WITH EPOCH EPOCH_MS EXP
EXTRACT FLOOR FROM_BASE64 GREATEST HOUR IF IFNULL JSON_ARRAY_LENGTH JSON_EXTRACT
JSON_EXTRACT_SCALAR JSON_EXTRACT_STRING LCASE LEAST LEFT LEN LENGTH LIST_CONTAINS LN LOG LOG10 LOG2
LOWER LTRIM MAKE_TIMESTAMP MAP MAP_KEYS MAP_VALUES MD5 MINUTE MOD MONTH NULLIF PI POW POWER QUARTER
RADIANS REGEXP_EXTRACT REGEXP_FULL_MATCH REGEXP_LIKE REGEXP_MATCHES REGEXP_REPLACE REPLACE REVERSE
RIGHT ROUND RTRIM SECOND SIGN SIN SPLIT SPLIT_PART SQRT STARTS_WITH STRFTIME STR_POSITION STRPTIME
STRUCT STR_TO_TIME SUBSTR SUBSTRING TAN TIME_TO_STR TIMESTAMP_TRUNC TO_BASE64 TRIM TRUNC TRY_CAST
TS_OR_DS_ADD TS_OR_DS_TO_DATE UCASE UNNEST EXPLODE UPPER WEEK YEAR
"""
FUNCTIONS = frozenset(f"{_AGGREGATES} {_WINDOWS} {_SCALARS}".split())
NODES: tuple[type[exp.Expr], ...] = (
    *(exp.Select, exp.SetOperation, exp.Subquery, exp.With, exp.CTE, exp.From, exp.Join),
    *(exp.Table, exp.TableAlias, exp.Values, exp.Tuple, exp.Where, exp.Group, exp.GroupingSets),
    *(exp.Cube, exp.Rollup, exp.Having, exp.Qualify, exp.Order, exp.Ordered, exp.Limit, exp.Offset),
    *(exp.Distinct, exp.Window, exp.WindowSpec, exp.Filter, exp.WithinGroup, exp.IgnoreNulls),
    *(exp.RespectNulls, exp.Column, exp.Identifier, exp.Star, exp.Alias, exp.Dot, exp.Var),
    *(exp.Literal, exp.Boolean, exp.Null, exp.Interval, exp.DataType, exp.DataTypeParam),
    *(exp.ColumnDef, exp.Cast, exp.Case, exp.If, exp.Binary, exp.Unary, exp.Between, exp.In),
    *(exp.Exists, exp.Array, exp.Struct, exp.PropertyEQ, exp.Bracket, exp.Slice, exp.AtTimeZone),
    *(exp.Aliases, exp.Lambda, exp.Kwarg),
)
"""What is on no list is refused, functions by the list above."""

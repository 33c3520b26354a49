"""All functions of the dialect. Made from the catalogue by `make docs`; do not edit."""

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Literal, TypeAlias

from millstream.dsl.expressions import Expr, Value

Argument: TypeAlias = Value | Callable[..., Value]
Array: TypeAlias = Expr | Sequence[Value] | None
Bytes: TypeAlias = Expr | None
Date: TypeAlias = Expr | date | None
Flag: TypeAlias = Expr | bool | None
Lambda1: TypeAlias = Callable[[Expr], Value]
Lambda2: TypeAlias = Callable[[Expr, Expr], Value]
Lambda3: TypeAlias = Callable[[Expr, Expr, Expr], Value]
Map: TypeAlias = Expr | Mapping[str, Value] | None
Number: TypeAlias = Expr | int | float | Decimal | None
Struct: TypeAlias = Expr | None
Text: TypeAlias = Expr | str | None
Time: TypeAlias = Expr | time | None
Timestamp: TypeAlias = Expr | datetime | None
Unit: TypeAlias = Literal["days", "hours", "minutes", "seconds", "milliseconds"]
Whole: TypeAlias = Expr | int | None

def call(name: str, /, *arguments: Argument) -> Expr:
    """A call of any function, also one of your own (`millstream.udf`). A Python function among the
    arguments becomes a lambda of the dialect."""

def abs(number: Number, /) -> Expr:
    """The value without its sign. The smallest integer stays as it is."""

def acos(number: Number, /) -> Expr:
    """Arc cosine in radians; NaN outside -1 to 1."""

def array_concat(array: Array, array2: Array, /) -> Expr:
    """The elements of the first array, then those of the second. A NULL array adds nothing."""

def array_contains(array: Array, value: Value, /) -> Expr:
    """Whether the value, or NULL, is an element. FALSE for a NULL array."""

def array_distinct(array: Array, /) -> Expr:
    """The distinct elements in the order of their first occurrence."""

def array_except(array: Array, array2: Array, /) -> Expr:
    """The distinct elements of the first array that the second does not contain."""

def array_intersect(array: Array, array2: Array, /) -> Expr:
    """The distinct elements of the first array that the second contains too."""

def array_join(array: Array, text: Text = ..., /) -> Expr:
    """The elements as text with a delimiter (a comma) between them; a NULL element is `null`."""

def array_length(array: Array, /) -> Expr:
    """The number of elements."""

def array_max(array: Array, /) -> Expr:
    """The greatest element that is not NULL."""

def array_min(array: Array, /) -> Expr:
    """The smallest element that is not NULL."""

def array_remove(array: Array, value: Value, /) -> Expr:
    """The array without the elements that equal the value, or without NULLs."""

def array_sort(array: Array, text: Text = ..., /) -> Expr:
    """The elements in ascending order, or descending with 'DESC'; NULLs last."""

def array_union(array: Array, array2: Array, /) -> Expr:
    """The distinct elements of both arrays in the order in which they come."""

def asin(number: Number, /) -> Expr:
    """Arc sine in radians; NaN outside -1 to 1."""

def as_map(array: Array, array2: Array, /) -> Expr:
    """A map of an array of keys and one of values. A key without a value maps to NULL."""

def as_value(value: Value, /) -> Expr:
    """The argument. Copies a key column into the value."""

def atan(number: Number, /) -> Expr:
    """Arc tangent in radians."""

def atan2(number: Number, number2: Number, /) -> Expr:
    """The angle in radians of the point (x, y), given as (y, x)."""

def attr(value: Value, /) -> Expr:
    """The value that all rows have, or NULL if there are several; NULL counts as a value."""

def avg(number: Number, /) -> Expr:
    """The mean of the values that are not NULL; 0.0 without any. DECIMAL is taken as DOUBLE."""

def bigint_from_bytes(bytes: Bytes, text: Text = ..., /) -> Expr:
    """The BIGINT in 8 bytes, the highest first or in the order LITTLE_ENDIAN."""

def cbrt(number: Number, /) -> Expr:
    """Cube root."""

def ceil(number: Number, /) -> Expr:
    """The smallest whole number that is not less; of the argument's type."""

def chr(whole: Whole | Text, /) -> Expr:
    """The character of a code point, given as a number or as text of the form \\u0041."""

def coalesce(value: Value, /, *more: Value) -> Expr:
    """The first argument that is not NULL."""

def collect_list(value: Value, /) -> Expr:
    """All values in the order of processing, NULLs too."""

def collect_set(value: Value, /) -> Expr:
    """The distinct values in the order in which they first came; NULL at most once."""

def concat(text: Text | Bytes, /, *more: Text | Bytes) -> Expr:
    """The arguments one after the other; NULLs add nothing."""

def concat_ws(text: Text | Bytes, text2: Text | Bytes, /, *more: Text | Bytes) -> Expr:
    """The arguments after the first with the first between them; NULLs are left out."""

def convert_tz(timestamp: Timestamp, text: Text, text2: Text, /) -> Expr:
    """The time that clocks in the second zone show when those in the first show this one."""

def correlation(number: Number, number2: Number, /) -> Expr:
    """Pearson's correlation of two columns over the rows in which neither is NULL; NaN for fewer
    than two rows or where one does not vary."""

def cos(number: Number, /) -> Expr:
    """Cosine of radians."""

def cosh(number: Number, /) -> Expr:
    """Hyperbolic cosine."""

def cot(number: Number, /) -> Expr:
    """Cotangent of radians; infinite at 0."""

def count(value: Value = ..., /) -> Expr:
    """Counts rows; with an argument, the rows in which it is not NULL."""

def count_distinct(value: Value, /) -> Expr:
    """The number of distinct values that are not NULL."""

def cube_explode(array: Array, /) -> Expr:
    """One row for each way of replacing some of the elements by NULL. At most 20 elements that are
    not NULL."""

def dateadd(unit: Unit, whole: Whole, date: Date, /) -> Expr:
    """The date so many units later: the day on which that time is."""

def datesub(unit: Unit, whole: Whole, date: Date, /) -> Expr:
    """The date so many units earlier: the day on which that time is."""

def datetostring(whole: Whole, text: Text, /) -> Expr:
    """Days since 1970-01-01 as text by a pattern. Use FORMAT_DATE."""

def degrees(number: Number, /) -> Expr:
    """Radians as degrees."""

def double_from_bytes(bytes: Bytes, text: Text = ..., /) -> Expr:
    """The DOUBLE in 8 bytes, the highest first or in the order LITTLE_ENDIAN."""

def earliest_by_offset(
    value: Value,
    ignore_nulls: Flag | Whole = ...,
    ignore_nulls2: Flag = ...,
    /,
) -> Expr:
    """The value of the row processed first, or the values of the first n rows. NULLs are passed
    over unless ignoreNulls is FALSE."""

def elt(whole: Whole, /, *more: Text) -> Expr:
    """The argument at the position given first, counted from 1."""

def encode(text: Text, text2: Text, text3: Text, /) -> Expr:
    """Text in one encoding as text in another: hex, utf8, ascii or base64."""

def entries(map: Map, flag: Flag, /) -> Expr:
    """The entries as structs K and V, sorted by key if the second argument is TRUE."""

def exp(number: Number, /) -> Expr:
    """e to the power of the argument."""

def explode(input: Array, /) -> Expr:
    """One row for each element of the array; none for NULL or an empty array."""

def extractjsonfield(text: Text, text2: Text, /) -> Expr:
    """What a path such as $.a.b[0] leads to in JSON text: strings as they are, anything else as
    JSON; NULL where nothing or null is there."""

def field(text: Text, /, *more: Text) -> Expr:
    """The position of the first argument among the others, counted from 1; 0 if absent."""

def filter(array: Array | Map, lambda1: Lambda1 | Lambda2, /) -> Expr:
    """The elements, or entries, for which the lambda is true."""

def floor(number: Number, /) -> Expr:
    """The greatest whole number that is not greater; of the argument's type."""

def format_date(date: Date, text: Text, /) -> Expr:
    """The date as text by a pattern."""

def format_time(time: Time, text: Text, /) -> Expr:
    """The time of day as text by a pattern."""

def format_timestamp(timestamp: Timestamp, text: Text, text2: Text = ..., /) -> Expr:
    """The time as text by a pattern, as clocks in a zone (GMT) show it."""

def from_bytes(bytes: Bytes, text: Text, /) -> Expr:
    """Bytes as text in an encoding: hex, utf8, ascii or base64."""

def from_days(whole: Whole, /) -> Expr:
    """The date so many days after 1970-01-01."""

def from_unixtime(whole: Whole, /) -> Expr:
    """The time so many milliseconds after 1970-01-01T00:00 UTC."""

def generate_series(whole: Whole, whole2: Whole, whole3: Whole = ..., /) -> Expr:
    """The numbers from the first to the second, both included, by steps of the third (1 or -1). A
    step of 0 or in the wrong direction is an error."""

def geo_distance(
    number: Number,
    number2: Number,
    number3: Number,
    number4: Number,
    text: Text = ...,
    /,
) -> Expr:
    """The great-circle distance of two points given as latitude and longitude in degrees, in
    kilometres ('KM') or miles ('MI')."""

def greatest(
    number: Number | Text | Bytes | Date | Time | Timestamp,
    /,
    *more: Number | Text | Bytes | Date | Time | Timestamp,
) -> Expr:
    """The greatest of the arguments that are not NULL."""

def histogram(text: Text, /) -> Expr:
    """How often each value came. Of more than 1000 values, new ones are ignored."""

def ifnull(value: Value, value2: Value, /) -> Expr:
    """The first argument, or the second where that is NULL."""

def initcap(text: Text, /) -> Expr:
    """The text with the first letter of each word in upper case and the rest in lower case."""

def instr(text: Text, text2: Text, whole: Whole = ..., whole2: Whole = ..., /) -> Expr:
    """The position, counted from 1, at which the second text occurs in the first; 0 if nowhere. The
    search starts at the third argument (backwards from the end if negative) and finds the
    occurrence given by the fourth."""

def int_from_bytes(bytes: Bytes, text: Text = ..., /) -> Expr:
    """The INTEGER in 4 bytes, the highest first or in the order LITTLE_ENDIAN."""

def is_json_string(text: Text, /) -> Expr:
    """Whether the text is JSON."""

def json_array_contains(text: Text, number: Number | Flag | Text, /) -> Expr:
    """Whether a JSON array has an element of this value and type."""

def json_array_length(text: Text, /) -> Expr:
    """The number of elements of a JSON array."""

def json_concat(text: Text, /, *more: Text) -> Expr:
    """JSON values joined: objects are merged, arrays appended, anything else becomes an array."""

def json_items(text: Text, /) -> Expr:
    """The elements of a JSON array as JSON text."""

def json_keys(text: Text, /) -> Expr:
    """The keys of a JSON object."""

def json_records(text: Text, /) -> Expr:
    """The members of a JSON object: strings as they are, other values as JSON."""

def latest_by_offset(
    value: Value,
    ignore_nulls: Flag | Whole = ...,
    ignore_nulls2: Flag = ...,
    /,
) -> Expr:
    """The value of the row processed last, or the values of the last n rows, oldest first. NULLs
    are passed over unless ignoreNulls is FALSE."""

def lcase(text: Text, /) -> Expr:
    """The text in lower case."""

def least(
    number: Number | Text | Bytes | Date | Time | Timestamp,
    /,
    *more: Number | Text | Bytes | Date | Time | Timestamp,
) -> Expr:
    """The smallest of the arguments that are not NULL."""

def len(text: Text | Bytes, /) -> Expr:
    """The number of UTF-16 code units, or of bytes."""

def ln(number: Number, /) -> Expr:
    """Natural logarithm; NaN below 0, -Infinity at 0."""

def log(number: Number, number2: Number = ..., /) -> Expr:
    """Logarithm of the last argument to the base of the first; of one argument, the natural
    logarithm."""

def lpad(text: Text | Bytes, whole: Whole, text2: Text | Bytes, /) -> Expr:
    """The text or bytes cut or filled up on the left to a length."""

def map_keys(map: Map, /) -> Expr:
    """The keys, in no particular order."""

def map_union(map: Map, map2: Map, /) -> Expr:
    """The entries of both maps; the second's win. A NULL map adds nothing."""

def map_values(map: Map, /) -> Expr:
    """The values, in no particular order."""

def mask(
    text: Text,
    text2: Text = ...,
    text3: Text = ...,
    text4: Text = ...,
    text5: Text = ...,
    /,
) -> Expr:
    """The text with upper-case letters, lower-case letters, digits and other characters replaced by
    X, x, n and -, or by the given characters; NULL leaves a class as it is."""

def mask_keep_left(
    text: Text,
    whole: Whole,
    text2: Text = ...,
    text3: Text = ...,
    text4: Text = ...,
    text5: Text = ...,
    /,
) -> Expr:
    """The text masked as MASK does, but for the first n characters."""

def mask_keep_right(
    text: Text,
    whole: Whole,
    text2: Text = ...,
    text3: Text = ...,
    text4: Text = ...,
    text5: Text = ...,
    /,
) -> Expr:
    """The text masked as MASK does, but for the last n characters."""

def mask_left(
    text: Text,
    whole: Whole,
    text2: Text = ...,
    text3: Text = ...,
    text4: Text = ...,
    text5: Text = ...,
    /,
) -> Expr:
    """The text with the first n characters masked as MASK does."""

def mask_right(
    text: Text,
    whole: Whole,
    text2: Text = ...,
    text3: Text = ...,
    text4: Text = ...,
    text5: Text = ...,
    /,
) -> Expr:
    """The text with the last n characters masked as MASK does."""

def max(number: Number | Text | Bytes | Date | Time | Timestamp, /) -> Expr:
    """The greatest value that is not NULL."""

def md5(text: Text, /) -> Expr:
    """The MD5 digest of the text's UTF-8 bytes in lower-case hexadecimal."""

def min(number: Number | Text | Bytes | Date | Time | Timestamp, /) -> Expr:
    """The smallest value that is not NULL."""

def nullif(value: Value, value2: Value, /) -> Expr:
    """NULL where both arguments are equal, otherwise the first."""

def parse_date(text: Text, text2: Text, /) -> Expr:
    """The date that text shows by a pattern."""

def parse_time(text: Text, text2: Text, /) -> Expr:
    """The time of day that text shows by a pattern."""

def parse_timestamp(text: Text, text2: Text, text3: Text = ..., /) -> Expr:
    """The time that text shows by a pattern, on clocks in a zone (GMT)."""

def pi() -> Expr:
    """The number pi."""

def power(number: Number, number2: Number, /) -> Expr:
    """The first argument to the power of the second."""

def radians(number: Number, /) -> Expr:
    """Degrees as radians."""

def random() -> Expr:
    """A number from 0 up to but not 1."""

def reduce(array: Array | Map, value: Value, lambda2: Lambda2 | Lambda3, /) -> Expr:
    """Starts from the state and replaces it, element by element, by the result of the lambda."""

def regexp_extract(text: Text, text2: Text, whole: Whole = ..., /) -> Expr:
    """What an expression, or a group of it, first matches in a text."""

def regexp_extract_all(text: Text, text2: Text, whole: Whole = ..., /) -> Expr:
    """Everything that an expression, or a group of it, matches in a text."""

def regexp_replace(text: Text, text2: Text, text3: Text, /) -> Expr:
    """The text with everything an expression matches replaced; $1 stands for the first group."""

def regexp_split_to_array(text: Text, text2: Text, /) -> Expr:
    """The parts of a text between the matches of an expression."""

def replace(text: Text, text2: Text, text3: Text, /) -> Expr:
    """The text with every occurrence of the second replaced by the third."""

def round(number: Number, whole: Whole = ..., /) -> Expr:
    """The nearest whole number, or number of so many decimals; a half goes up. A negative number of
    decimals rounds left of the point."""

def rpad(text: Text | Bytes, whole: Whole, text2: Text | Bytes, /) -> Expr:
    """The text or bytes cut or filled up on the right to a length."""

def sign(number: Number, /) -> Expr:
    """-1, 0 or 1."""

def sin(number: Number, /) -> Expr:
    """Sine of radians."""

def sinh(number: Number, /) -> Expr:
    """Hyperbolic sine."""

def slice(array: Array, whole: Whole, whole2: Whole, /) -> Expr:
    """The elements from one position to another, both included, counted from 1; NULL outside the
    array. A NULL position is the beginning or the end."""

def split(text: Text | Bytes, text2: Text | Bytes, /) -> Expr:
    """The parts between the occurrences of a delimiter; an empty delimiter splits everywhere."""

def split_to_map(text: Text, text2: Text, text3: Text, /) -> Expr:
    """A map of the text's entries, split by the second argument, of a key and a value, split by the
    third. The last of equal keys wins; entries without the third argument are left out."""

def sqrt(number: Number, /) -> Expr:
    """Square root; NaN below 0."""

def stddev_samp(number: Number, /) -> Expr:
    """The sample variance (the name is historical); 0.0 for fewer than two values."""

def stddev_sample(number: Number, /) -> Expr:
    """The sample standard deviation; 0.0 for fewer than two values."""

def stringtodate(text: Text, text2: Text, /) -> Expr:
    """The days since 1970-01-01 of the date that text shows by a pattern. Use PARSE_DATE."""

def stringtotimestamp(text: Text, text2: Text, text3: Text = ..., /) -> Expr:
    """Milliseconds of the time that text shows by a pattern. Use PARSE_TIMESTAMP."""

def substring(text: Text | Bytes, whole: Whole, whole2: Whole = ..., /) -> Expr:
    """The part from a position on, counted from 1 or, if negative, from the end; of at most the
    given length."""

def sum(number: Number, /) -> Expr:
    """Adds up the values that are not NULL. Integers wrap around; a DECIMAL sum that needs more
    digits than its type has stops the query. DOUBLE values are added one by one in order."""

def sum_list(array: Array, /) -> Expr:
    """Adds up all elements of the arrays, as SUM does."""

def tan(number: Number, /) -> Expr:
    """Tangent of radians."""

def tanh(number: Number, /) -> Expr:
    """Hyperbolic tangent."""

def timeadd(unit: Unit, whole: Whole, time: Time, /) -> Expr:
    """The time of day so many units later, past midnight if need be."""

def timestampadd(unit: Unit, whole: Whole, timestamp: Timestamp, /) -> Expr:
    """The time so many units later."""

def timestampsub(unit: Unit, whole: Whole, timestamp: Timestamp, /) -> Expr:
    """The time so many units earlier."""

def timestamptostring(whole: Whole, text: Text, text2: Text = ..., /) -> Expr:
    """Milliseconds since 1970-01-01T00:00 UTC as text by a pattern. Use FORMAT_TIMESTAMP."""

def timesub(unit: Unit, whole: Whole, time: Time, /) -> Expr:
    """The time of day so many units earlier."""

def topk(
    number: Number | Text | Bytes | Date | Time | Timestamp,
    k: Value,
    /,
    *more: Value,
) -> Expr:
    """The k largest values, the largest first; with further columns, structs of them."""

def topkdistinct(number: Number | Text | Bytes | Date | Time | Timestamp, k: Whole, /) -> Expr:
    """The k largest distinct values, the largest first."""

def to_bytes(text: Text, text2: Text, /) -> Expr:
    """The bytes of text in an encoding: hex, utf8, ascii or base64."""

def to_json_string(value: Value, /) -> Expr:
    """The value as JSON text. Dates and times are ISO text, bytes base64."""

def transform(array: Array | Map, lambda1: Lambda1 | Lambda2, lambda2: Lambda2 = ..., /) -> Expr:
    """The array with each element, or the map with each key and value, replaced by the result of a
    lambda."""

def trim(text: Text, /) -> Expr:
    """The text without blanks and control characters at both ends."""

def trunc(number: Number, whole: Whole = ..., /) -> Expr:
    """The number without its fraction, or with so many decimals."""

def ucase(text: Text, /) -> Expr:
    """The text in upper case."""

def unix_date(date: Date = ..., /) -> Expr:
    """The days from 1970-01-01 to a date, or to today."""

def unix_timestamp(timestamp: Timestamp = ..., /) -> Expr:
    """The milliseconds from 1970-01-01T00:00 UTC to a time, or to now."""

def url_decode_param(text: Text, /) -> Expr:
    """The text that a URL parameter stands for."""

def url_encode_param(text: Text, /) -> Expr:
    """The text as a URL parameter."""

def url_extract_fragment(text: Text, /) -> Expr:
    """The part after #, decoded."""

def url_extract_host(text: Text, /) -> Expr:
    """The host; NULL where a name has other characters than letters, digits and hyphens."""

def url_extract_parameter(text: Text, text2: Text, /) -> Expr:
    """The value of a parameter of the query, decoded; empty if it has none."""

def url_extract_path(text: Text, /) -> Expr:
    """The path, decoded."""

def url_extract_port(text: Text, /) -> Expr:
    """The port."""

def url_extract_protocol(text: Text, /) -> Expr:
    """The scheme."""

def url_extract_query(text: Text, /) -> Expr:
    """The query, decoded."""

def uuid(bytes: Bytes = ..., /) -> Expr:
    """A random UUID, or the one of 16 bytes."""

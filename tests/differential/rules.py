"""Rules to make expressions, each spelt twice: in the dialect, and for DuckDB.

The second spelling follows ksqlDB's documentation; it was not derived from the engine's.
"""

from __future__ import annotations

from dataclasses import dataclass

AMOUNT = "DECIMAL(8, 2)"
STRUCT = "STRUCT<A INT, B STRING>"
INTS, STRINGS, MAP = "ARRAY<INT>", "ARRAY<STRING>", "MAP<STRING, INT>"
NUMBERS = ("INT", "BIGINT", "DOUBLE", AMOUNT)
NEARLY = "NEARLY"
"""A DOUBLE whose last digit depends on how it was computed: nothing is computed from it."""
SCALARS = (*NUMBERS, "STRING", "DATE", "TIMESTAMP")
TYPES = (*SCALARS, "BOOLEAN", "TIME", INTS, STRINGS, MAP, STRUCT)


@dataclass(frozen=True, slots=True)
class Rule:
    """How to make an expression of a type from expressions of other types."""

    result: str
    arguments: tuple[str, ...]
    sql: str
    oracle: str
    fails: bool = False
    lazy: bool = False
    """Its arguments must be total."""


def _r(result: str, arguments: str, sql: str, oracle: str = "", how: str = "") -> Rule:
    names = {"i": "INT", "l": "BIGINT", "d": "DOUBLE", "m": AMOUNT, "s": "STRING", "b": "BOOLEAN"}
    names |= {"D": "DATE", "T": "TIMESTAMP", "c": "TIME", "A": INTS, "S": STRINGS, "M": MAP}
    names |= {"R": STRUCT}
    given = tuple(names[letter] for letter in arguments)
    made = names.get(result, result)
    plain = oracle or sql
    if made.startswith("DECIMAL"):
        plain = f"CAST({plain} AS {made})"
    return Rule(made, given, sql, plain, "f" in how, "z" in how)


def _integers() -> list[Rule]:
    rules = []
    for kind, other, wrap in (("i", "i", "wrap32"), ("l", "i", "wrap64"), ("l", "l", "wrap64")):
        for sign in "+-*":
            rules.append(
                _r(
                    kind,
                    kind + other,
                    f"({{0}} {sign} {{1}})",
                    f"{wrap}(beside({{0}}, {{1}})::HUGEINT {sign} {{1}})",
                )
            )
        rules += [
            _r(kind, kind + other, "({0} / {1})", f"{wrap}(divided({{0}}, {{1}}))", "f"),
            _r(kind, kind + other, "({0} % {1})", f"{wrap}(remainder({{0}}, {{1}}))", "f"),
        ]
    return [
        *rules,
        _r("i", "i", "(-{0})", "wrap32(-({0}::HUGEINT))"),
        _r("i", "i", "ABS({0})", "wrap32(abs({0}::HUGEINT))"),
        _r(
            "i",
            "d",
            "SIGN({0})",
            "CASE WHEN {0} > 0 THEN 1 WHEN {0} < 0 THEN -1 WHEN {0} = 0 THEN 0 END",
        ),
        _r("i", "ii", "GREATEST({0}, {1})"),
        _r("l", "ll", "LEAST({0}, {1})"),
        _r("l", "i", "CAST({0} AS BIGINT)"),
        _r("i", "l", "CAST({0} AS INT)", "wrap32({0})"),
        _r(
            "i",
            "d",
            "CAST({0} AS INT)",
            "CAST(within(trunc({0}), -2147483648, 2147483647) AS INTEGER)",
        ),
        _r("l", "m", "CAST({0} AS BIGINT)", "CAST(trunc({0}) AS BIGINT)"),
        _r("l", "d", "ROUND({0})", "CAST(floor({0} + 0.5) AS BIGINT)"),
        _r("l", "T", "UNIX_TIMESTAMP({0})", "epoch_ms({0})"),
        _r("i", "D", "UNIX_DATE({0})", "CAST({0} - DATE '1970-01-01' AS INTEGER)"),
        _r("i", "s", "LEN({0})", "units({0})"),
        _r("i", "s", "INSTR({0}, 'a')", "place({0}, 'a')"),
        _r("i", "s", "FIELD({0}, 'a', 'b')", "CASE {0} WHEN 'a' THEN 1 WHEN 'b' THEN 2 ELSE 0 END"),
        _r(
            "i",
            "s",
            "CAST({0} AS INT)",
            "CASE WHEN {0} IS NULL THEN NULL WHEN regexp_full_match(trim({0}), '[+-]?[0-9]+')"
            " THEN CAST(trim({0}) AS INTEGER) ELSE CAST('no ' || {0} AS INTEGER) END",
            "f",
        ),
        _r("i", "A", "ARRAY_LENGTH({0})", "CAST(len({0}) AS INTEGER)"),
        _r("i", "A", "{0}[1]"),
        _r("i", "A", "{0}[-1]"),
        _r("i", "A", "{0}[3]"),
        _r("i", "A", "ARRAY_MAX({0})", "list_max(seen({0}))"),
        _r("i", "A", "ARRAY_MIN({0})", "list_min(seen({0}))"),
        _r(
            "i",
            "A",
            "REDUCE({0}, 1, (s, x) => s + COALESCE(x, 2))",
            "wrap32(1 + coalesce(list_sum(list_transform({0}, "
            "lambda x: coalesce(x, 2)::HUGEINT)), 0))",
        ),
        _r("i", "M", "{0}['a']"),
        _r("i", "R", "{0}->A", "struct_extract({0}, 'A')"),
        _r("i", "ii", "COALESCE({0}, {1})", how="z"),
        _r("l", "ll", "IFNULL({0}, {1})", "coalesce({0}, {1})", "z"),
        _r(
            "i",
            "ii",
            "NULLIF({0}, {1})",
            "CASE WHEN {1} IS NULL THEN {0} ELSE NULLIF({0}, {1}) END",
        ),
        _r("i", "bii", "CASE WHEN {0} THEN {1} ELSE {2} END", how="z"),
    ]


def _fractions() -> list[Rule]:
    exact = "CAST({0} AS DECIMAL(38, 4))"
    return [
        _r("d", "dd", "({0} + {1})"),
        _r("d", "dd", "({0} - {1})"),
        _r("d", "dd", "({0} * {1})"),
        _r("d", "di", "({0} + {1})"),
        _r("d", "dm", "({0} - {1})", "({0} - CAST({1} AS DOUBLE))"),
        _r("d", "d", "({0} / 4)", "({0} / 4::DOUBLE)"),
        _r("d", "d", "ABS({0})"),
        _r("d", "d", "SQRT(ABS({0}))"),
        _r("d", "d", "FLOOR({0})"),
        _r("d", "d", "CEIL({0})"),
        _r("d", "d", "LN(ABS({0}) + 1)"),
        _r("d", "d", "SIN({0})"),
        _r("d", "dd", "GREATEST({0}, {1})"),
        _r("d", "i", "CAST({0} AS DOUBLE)"),
        _r("d", "m", "CAST({0} AS DOUBLE)"),
        _r("d", "bdd", "CASE WHEN {0} THEN {1} ELSE {2} END", how="z"),
        _r("DECIMAL(9, 2)", "mm", "({0} + {1})"),
        _r("DECIMAL(9, 2)", "mm", "({0} - {1})"),
        _r("DECIMAL(17, 4)", "mm", "({0} * {1})", f"({exact} * {{1}})"),
        _r("DECIMAL(13, 2)", "mi", "({0} + {1})"),
        _r("DECIMAL(19, 2)", "mi", "({0} * {1})"),
        _r(
            "DECIMAL(8, 2)",
            "mm",
            "({0} % {1})",
            "{0} % divisor({0}, {1})",
            "f",
        ),
        _r(AMOUNT, "m", "ABS({0})"),
        _r(AMOUNT, "m", "(-{0})"),
        _r(AMOUNT, "m", "FLOOR({0})"),
        _r(AMOUNT, "mm", "LEAST({0}, {1})"),
        _r(AMOUNT, "mm", "COALESCE({0}, {1})", how="z"),
        _r(
            "DECIMAL(9, 1)",
            "d",
            "CAST({0} AS DECIMAL(9, 1))",
            # Times ten, a number that is hardly less than a half may become one.
            "CAST(CAST(CAST({0} AS VARCHAR) AS DECIMAL(38, 18)) AS DECIMAL(9, 1))",
            "f",
        ),
        _r("DECIMAL(9, 3)", "m", "CAST({0} AS DECIMAL(9, 3))"),
    ]


def _texts() -> list[Rule]:
    same: tuple[str, ...] = (
        "UCASE({0})|upper({0})",
        "LCASE({0})|lower({0})",
        "TRIM({0})|stripped({0})",
    )
    same += ("REPLACE({0}, 'a', 'xy')|replace({0}, 'a', 'xy')", "MD5({0})|md5({0})")
    same += ("SUBSTRING({0}, 2)|whole(halves({0})[2:])",)
    same += ("SUBSTRING({0}, 1, 2)|whole(halves({0})[:2])", "SUBSTRING({0}, -2)|whole(ending({0}))")
    same += ("LPAD({0}, 4, '*')|whole(padding({0}, 4, '*'))",)
    same += ("RPAD({0}, 3, '.-')|whole(padded({0}, 3, '.-'))",)
    same += ("LPAD({0}, 5, '😀')|whole(padding({0}, 5, '😀'))",)
    same += ("REGEXP_REPLACE({0}, '[ab]', 'x')|regexp_replace({0}, '[ab]', 'x', 'g')",)
    same += (
        "REGEXP_EXTRACT('(.)b', {0}, 1)|CASE WHEN regexp_matches({0}, '(.)b')"
        " THEN regexp_extract({0}, '(.)b', 1) END",
    )
    return [
        *(_r("s", "s", *pair.split("|")) for pair in same),
        _r("s", "ss", "CONCAT({0}, {1})"),
        _r("s", "ss", "({0} || {1})", "concat({0}, {1})"),
        _r("s", "ss", "CONCAT_WS('-', {0}, {1})"),
        _r("s", "ss", "COALESCE({0}, {1})", how="z"),
        _r(
            "s",
            "ss",
            "NULLIF({0}, {1})",
            "CASE WHEN {1} IS NULL THEN {0} ELSE NULLIF({0}, {1}) END",
        ),
        _r("s", "ss", "GREATEST({0}, {1})"),
        _r("s", "bss", "CASE WHEN {0} THEN {1} ELSE {2} END", how="z"),
        _r("s", "bbs", "CASE WHEN {0} THEN 'p' WHEN {1} THEN {2} END", how="z"),
        _r("s", "i", "CAST({0} AS STRING)", "CAST({0} AS VARCHAR)"),
        _r("s", "l", "CAST({0} AS STRING)", "CAST({0} AS VARCHAR)"),
        _r("s", "m", "CAST({0} AS STRING)", "CAST({0} AS VARCHAR)"),
        _r(
            "s",
            "b",
            "CAST({0} AS STRING)",
            "CASE WHEN {0} THEN 'true' WHEN NOT {0} THEN 'false' END",
        ),
        _r("s", "D", "CAST({0} AS STRING)", "strftime({0}, '%Y-%m-%d')"),
        _r("s", "D", "FORMAT_DATE({0}, 'dd/MM/yyyy')", "strftime({0}, '%d/%m/%Y')"),
        _r(
            "s",
            "T",
            "FORMAT_TIMESTAMP({0}, 'yyyy-MM-dd HH:mm:ss.SSS')",
            "strftime({0}, '%Y-%m-%d %H:%M:%S.%g')",
        ),
        _r("s", "T", "CAST({0} AS STRING)", "strftime({0}, '%Y-%m-%dT%H:%M:%S.%g')"),
        _r("s", "i", "ELT({0}, 'p', 'q')", "CASE {0} WHEN 1 THEN 'p' WHEN 2 THEN 'q' END"),
        _r(
            "s",
            "S",
            "ARRAY_JOIN({0}, '-')",
            "array_to_string(list_transform({0}, lambda x: coalesce(x, 'null')), '-')",
        ),
        _r("s", "S", "{0}[1]"),
        _r("s", "R", "{0}->B", "struct_extract({0}, 'B')"),
    ]


def _conditions() -> list[Rule]:
    rules = []
    for letter in "ildmsDT":
        for sign in ("=", "<>", "<", "<=", ">", ">="):
            rules.append(
                _r(
                    "b",
                    letter * 2,
                    f"({{0}} {sign} {{1}})",
                    f"CASE WHEN {{0}} IS NOT NULL THEN coalesce({{0}} {sign} {{1}}, FALSE) "
                    "ELSE FALSE END",
                )
            )
        rules += [
            _r("b", letter, "({0} IS NULL)"),
            _r("b", letter * 2, "({0} IS DISTINCT FROM {1})"),
        ]
    return [
        *rules,
        _r(
            "b",
            "iii",
            "({0} BETWEEN {1} AND {2})",
            "CASE WHEN {0} IS NULL THEN FALSE WHEN {0} >= {1} THEN coalesce({0} <= {2}, FALSE) "
            "ELSE FALSE END",
        ),
        _r("b", "i", "({0} IN (1, 2, 5))", "coalesce({0} IN (1, 2, 5), FALSE)"),
        _r("b", "i", "({0} > 2)", "coalesce({0} > 2, FALSE)"),
        _r("b", "l", "({0} < 40)", "coalesce({0} < 40, FALSE)"),
        _r("b", "d", "({0} >= 1.5)", "coalesce({0} >= 1.5, FALSE)"),
        _r("b", "m", "({0} <> 1.50)", "coalesce({0} <> 1.50, FALSE)"),
        _r("b", "s", "({0} LIKE '%a%')", "coalesce(contains({0}, 'a'), FALSE)"),
        _r(
            "b",
            "s",
            "({0} LIKE 'b_')",
            "coalesce(length({0}) = 2 AND starts_with({0}, 'b'), FALSE)",
        ),
        _r("b", "s", "({0} IN ('a', '12'))", "coalesce({0} IN ('a', '12'), FALSE)"),
        _r("b", "bb", "({0} AND {1})", how="z"),
        _r("b", "bb", "({0} OR {1})", how="z"),
        _r("b", "b", "(NOT {0})", how="z"),
        _r("b", "A", "ARRAY_CONTAINS({0}, 2)", "coalesce(holds({0}, 2), FALSE)"),
        _r("b", "RR", "({0} = {1})", "coalesce({0} = {1}, FALSE)"),
        _r("b", "AA", "({0} IS NOT DISTINCT FROM {1})"),
    ]


def _times() -> list[Rule]:
    return [
        _r("D", "D", "DATEADD(DAYS, 3, {0})", "({0} + 3)"),
        _r("D", "D", "DATESUB(DAYS, 40, {0})", "({0} - 40)"),
        _r("D", "T", "CAST({0} AS DATE)"),
        _r("D", "D", "PARSE_DATE(FORMAT_DATE({0}, 'yyyy-MM-dd'), 'yyyy-MM-dd')", "{0}"),
        _r("T", "T", "TIMESTAMPADD(HOURS, 5, {0})", "({0} + INTERVAL 5 HOUR)"),
        _r("T", "T", "TIMESTAMPSUB(MINUTES, 7, {0})", "({0} - INTERVAL 7 MINUTE)"),
        _r("T", "D", "CAST({0} AS TIMESTAMP)"),
        _r("T", "T", "FROM_UNIXTIME(UNIX_TIMESTAMP({0}))", "{0}"),
        _r("c", "c", "TIMEADD(HOURS, 3, {0})", "({0} + INTERVAL 3 HOUR)"),
        _r("c", "T", "CAST({0} AS TIME)"),
    ]


def _nested() -> list[Rule]:
    return [
        _r("A", "A", "ARRAY_DISTINCT({0})", "distinct_of({0})"),
        _r(
            "A",
            "AA",
            "ARRAY_CONCAT({0}, {1})",
            "CASE WHEN {0} IS NULL THEN {1} WHEN {1} IS NULL THEN {0} "
            "ELSE list_concat({0}, {1}) END",
        ),
        _r(
            "A",
            "AA",
            "ARRAY_UNION({0}, {1})",
            "CASE WHEN {0} IS NOT NULL AND {1} IS NOT NULL "
            "THEN distinct_of(list_concat({0}, {1})) END",
        ),
        _r(
            "A",
            "A",
            "ARRAY_EXCEPT({0}, ARRAY[1, 2])",
            "list_filter(distinct_of({0}), lambda x: x IS NULL OR x NOT IN (1, 2))",
        ),
        _r("A", "A", "ARRAY_SORT({0})", "list_sort({0}, 'ASC', 'NULLS LAST')"),
        _r("A", "A", "ARRAY_REMOVE({0}, 1)", "list_filter({0}, lambda x: x IS DISTINCT FROM 1)"),
        _r(
            "A",
            "A",
            "FILTER({0}, x => COALESCE(x, 0) > 1)",
            "list_filter({0}, lambda x: coalesce(x, 0) > 1)",
        ),
        _r(
            "A",
            "A",
            "TRANSFORM({0}, x => COALESCE(x, 0) * 2)",
            "list_transform({0}, lambda x: wrap32(coalesce(x, 0)::HUGEINT * 2))",
        ),
        _r("A", "ii", "ARRAY[{0}, {1}, 7]", "[{0}, {1}, 7]"),
        _r("S", "s", "SPLIT({0}, 'b')", "string_split({0}, 'b')"),
        _r("S", "ss", "ARRAY['k', {0}, {1}]", "['k', {0}, {1}]"),
        _r("S", "M", "ARRAY_SORT(MAP_KEYS({0}))", "list_sort(map_keys({0}))"),
        _r(
            "M",
            "ii",
            "MAP('a' := {0}, 'z' := {1}, 'y' := 1)",
            "map(['a', 'z', 'y'], [{0}, {1}, 1])",
        ),
        _r("R", "is", "STRUCT(A := {0}, B := {1})", "{{'A': {0}, 'B': {1}}}"),
    ]


RULES: tuple[Rule, ...] = (
    *_integers(),
    *_fractions(),
    *_texts(),
    *_conditions(),
    *_times(),
    *_nested(),
)

"""SQL for numbers in Java's notation, where DuckDB's differs."""

from __future__ import annotations


def double_text(value: str) -> str:
    """The text of a DOUBLE: plain from 0.001 up to ten million, else like `1.0E10`; NaN, Infinity.

    `value` is the SQL of the number, and so is the result; NULL gives NULL.
    """
    text = f"abs({value})::VARCHAR"
    # Java writes at least two digits, the nearest two: 4.9E-324, where one would be enough.
    figures = f"if(contains({text}, '.'), {text}, format('{{:.1e}}', abs({value})))"
    mantissa, exponent = f"split_part({figures}, 'e', 1)", f"split_part({figures}, 'e', 2)::INTEGER"
    small = f"ltrim({text}, '0.')"
    # DuckDB's cost is per text operation and per branch, even an empty one: the branches of common
    # numbers have few operations and come first.
    behind = f"rtrim(substring(replace({text}, '.', ''), 2), '0')"
    moved = f"concat(left({text}, 1), '.', {behind}, 'E', instr({text}, '.') - 2)"
    large = f"replace({moved}, '.E', '.0E')"
    sign = f"if({value} < 0, '-', '')"
    unusual = (
        f"CASE WHEN {value} IS NULL THEN NULL"
        f" WHEN isnan({value}) THEN 'NaN'"
        f" WHEN isinf({value}) THEN concat({sign}, 'Infinity')"
        f" ELSE concat({sign}, CASE WHEN contains({text}, 'e')"
        f" THEN concat({mantissa}, 'E', {exponent})"
        f" WHEN abs({value}) >= 1 THEN {large}"
        f" ELSE concat({_scientific(small, f'len({small}) - len({text}) + 1')}) END) END"
    )
    return (
        f"CASE WHEN abs({value}) >= 1e-3 AND abs({value}) < 1e7 OR {value} = 0"
        f" THEN {value}::VARCHAR"
        f" WHEN abs({value}) >= 1e7 AND abs({value}) < 1e15 THEN concat({sign}, {large})"
        f" ELSE {unusual} END"
    )


def _scientific(digits: str, exponent: str) -> str:
    """Arguments of `concat`: the digits with a point behind the first, and the exponent."""
    rest = f"coalesce(nullif(substring({digits}, 2), ''), '0')"
    return f"left({digits}, 1), '.', {rest}, 'E', {exponent}"

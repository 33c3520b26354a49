"""SQL for numbers as Java writes them, where DuckDB writes them otherwise."""

from __future__ import annotations

_LARGE = r"^(.)([0-9]*?)(?:0*\.0|\.([0-9]+))$"
"""A number above ten: its first digit, the other digits before the point, those behind it."""


def double_text(value: str) -> str:
    """The text of a DOUBLE: plain from 0.001 up to ten million, else like `1.0E10`; NaN, Infinity.

    `value` is the SQL of the number, and so is the result; NULL gives NULL.
    """
    text = f"abs({value})::VARCHAR"
    mantissa, exponent = f"split_part({text}, 'e', 1)", f"split_part({text}, 'e', 2)::INTEGER"
    small = f"ltrim({text}, '0.')"
    # DuckDB spends its time per operation on text: the branch of each magnitude has few of them.
    moved = f"regexp_replace({text}, '{_LARGE}', '\\1.\\2\\3')"
    large = f"replace(concat({moved}, 'E', instr({text}, '.') - 2), '.E', '.0E')"
    sign = f"if({value} < 0, '-', '')"
    return (
        f"CASE WHEN abs({value}) >= 1e-3 AND abs({value}) < 1e7 OR {value} = 0"
        f" THEN {value}::VARCHAR"
        f" WHEN {value} IS NULL THEN NULL"
        f" WHEN isnan({value}) THEN 'NaN'"
        f" WHEN isinf({value}) THEN concat({sign}, 'Infinity')"
        f" WHEN abs({value}) >= 1e7 AND abs({value}) < 1e15 THEN {sign} || {large}"
        f" ELSE concat({sign}, CASE WHEN contains({text}, 'e')"
        f" THEN concat({mantissa}, if(contains({mantissa}, '.'), '', '.0'), 'E', {exponent})"
        f" WHEN abs({value}) >= 1 THEN {large}"
        f" ELSE concat({_scientific(small, f'len({small}) - len({text}) + 1')}) END) END"
    )


def _scientific(digits: str, exponent: str) -> str:
    """Arguments of `concat`: the digits with a point behind the first, and the exponent."""
    rest = f"coalesce(nullif(substring({digits}, 2), ''), '0')"
    return f"left({digits}, 1), '.', {rest}, 'E', {exponent}"

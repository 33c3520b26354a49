"""SQL for numbers as Java writes them, where DuckDB writes them otherwise."""

from __future__ import annotations


def double_text(value: str) -> str:
    """The text of a DOUBLE: plain from 0.001 up to ten million, else like `1.0E10`; NaN, Infinity.

    `value` is the SQL of the number, and so is the result; NULL gives NULL.
    """
    text = f"abs({value})::VARCHAR"
    mantissa, fraction = f"split_part({text}, 'e', 1)", f"split_part({text}, '.', 2)"
    whole, small = f"split_part({text}, '.', 1)", f"ltrim({fraction}, '0')"
    digits = f"rtrim({whole}[2:] || {fraction}, '0')"
    return (
        f"CASE WHEN abs({value}) >= 1e-3 AND abs({value}) < 1e7 OR {value} = 0"
        f" THEN {value}::VARCHAR"
        f" WHEN isnan({value}) THEN 'NaN'"
        f" ELSE if({value} < 0, '-', '') || CASE"
        f" WHEN isinf({value}) THEN 'Infinity'"
        f" WHEN contains({text}, 'e') THEN {mantissa} || if(contains({mantissa}, '.'), '', '.0')"
        f" || 'E' || split_part({text}, 'e', 2)::INTEGER"
        f" WHEN abs({value}) >= 1"
        f" THEN {whole}[1] || '.' || if({digits} = '', '0', {digits}) || 'E' || len({whole}) - 1"
        f" ELSE {small}[1] || '.' || if({small}[2:] = '', '0', {small}[2:])"
        f" || 'E-' || len({fraction}) - len({small}) + 1 END END"
    )

"""Aggregate functions as SQL: the templates of the catalogue filled in for one query."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from millstream.functions.function import AggregateVariant
from millstream.model.expressions import AggregateCall
from millstream.model.physical import duckdb_type
from millstream.operators.relation import Setting
from millstream.operators.sql import identifier, literal

_PLACE = re.compile(r"\{(\w+)\}|(\{\{|\}\})")


@dataclass(frozen=True, slots=True)
class Accumulator:
    """One aggregate of a node. `states` are (column, DuckDB type); `arguments` the columns that
    hold its arguments; all names unquoted."""

    name: str
    call: AggregateCall
    variant: AggregateVariant
    states: tuple[tuple[str, str], ...]
    arguments: tuple[str, ...]
    undo: bool

    @property
    def fold(self) -> object:
        """The fold that computes it, or None if SQL computes it."""
        return (self.undo and self.variant.undo_fold) or self.variant.fold


def accumulator(name: str, call: AggregateCall, setting: Setting, *, undo: bool) -> Accumulator:
    """`name`: the physical name of the output column; `undo`: rows can also be removed."""
    variant = setting.catalogue.aggregate[call.function].variants[call.variant]
    types = _types(call)
    states = tuple(
        (f"{name}${index}", _filled(kind, types)) for index, kind in enumerate(variant.state)
    )
    arguments = tuple(f"{name}$x{index}" for index in range(len(call.arguments)))
    return Accumulator(name, call, variant, states, arguments, undo)


def running_texts(item: Accumulator, setting: Setting) -> tuple[str, ...]:
    """State columns after each row, over `b` (rows) and `s` (stored states)."""
    chosen = item.variant.running
    if setting.exact and item.variant.exact_running:
        chosen = item.variant.exact_running
    return tuple(_filled(text, _places(item, "s.{}")) for text in chosen)


def grouped_texts(item: Accumulator, setting: Setting) -> tuple[str, ...]:
    """State columns after all rows of a group."""
    chosen = item.variant.grouped
    if setting.exact and item.variant.exact_grouped:
        chosen = item.variant.exact_grouped
    return tuple(_filled(text, _places(item, "any_value(s.{})")) for text in chosen)


def merged_texts(item: Accumulator) -> tuple[str, ...]:
    """State columns of two merged sessions, `a` the earlier one."""
    places = _places(item, "{}")
    for index, (name, _) in enumerate(item.states):
        places[f"a{index}"] = f"a.{identifier(name)}"
        places[f"b{index}"] = f"b.{identifier(name)}"
    return tuple(_filled(text, places) for text in item.variant.merge)


def result_text(item: Accumulator) -> str:
    """The value, from plain state columns."""
    return _filled(item.variant.result, _places(item, "{}"))


def _places(item: Accumulator, state: str) -> dict[str, str]:
    places = _types(item.call)
    places |= {"w": "w", "d": 'b."$diff"'}
    for index, name in enumerate(item.arguments):
        places[f"x{index}"] = f"b.{identifier(name)}"
    for index, (name, _) in enumerate(item.states):
        places[f"s{index}"] = state.format(identifier(name))
    for index, value in enumerate(item.call.constants):
        places[f"c{index}"] = literal(value)
    return places


def _types(call: AggregateCall) -> dict[str, str]:
    types = {"t": duckdb_type(call.type)}
    for index, argument in enumerate(call.arguments):
        types[f"t{index}"] = duckdb_type(argument.type)
    return types


def _filled(template: str, places: dict[str, str]) -> str:
    """Fill the known placeholders; doubled braces become single ones."""

    def place(match: re.Match[str]) -> str:
        if match[2]:
            return match[2][0]
        return places.get(match[1], match[0])

    return _PLACE.sub(place, template)


def state_columns(items: Sequence[Accumulator]) -> tuple[tuple[str, str], ...]:
    """The state columns of all aggregates of a node."""
    return tuple(column for item in items for column in item.states)

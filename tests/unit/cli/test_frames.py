"""Rows on the wire, however they are cut."""

from __future__ import annotations

from decimal import Decimal

import pytest

from millstream import Deletion
from millstream.model.errors import MillstreamError
from millstream_cli.sessions import frames

ANSWER = (
    '[{"header":{"queryId":"q1","schema":"`ID` INTEGER KEY, `a,``b` STRUCT<`F` DECIMAL(4, 2)>"}},\n'
    '{"row":{"columns":[1,{"F":1.50}]}},\n{"row":{"columns":[2,null],"tombstone":true}},\n'
    '{"row":{"columns":[3,"]}"]}},\n{"finalMessage":"Limit Reached"}]\n'
)


@pytest.mark.parametrize("size", [1, 2, 7, 64, len(ANSWER)])
def test_objects_come_in_pieces(size: int) -> None:
    pieces = [ANSWER[at : at + size] for at in range(0, len(ANSWER), size)]
    objects = frames.objects(pieces)
    assert frames.header(objects) == ("q1", ["ID", "a,`b"])
    rows = list(frames.rows(objects))
    assert rows == [(1, {"F": Decimal("1.50")}), (2, None), (3, "]}")]
    assert [isinstance(row, Deletion) for row in rows] == [False, True, False]


def test_an_object_is_there_before_the_comma_behind_it() -> None:
    objects = frames.objects(iter(['[{"row":{"columns":[1]}}', "]"]))
    assert next(objects) == {"row": {"columns": [1]}}


@pytest.mark.parametrize(
    "text",
    [
        '[{"errorMessage":{"message":"no luck"}}]',
        '[{"@type":"statement_error","error_code":40001,"message":"no luck"}]',
    ],
)
def test_an_error_in_place_of_a_row(text: str) -> None:
    with pytest.raises(MillstreamError, match="no luck"):
        list(frames.rows(frames.objects([text])))


def test_an_answer_that_breaks_off() -> None:
    with pytest.raises(MillstreamError, match="breaks off"):
        list(frames.objects(['[{"row":{"col']))

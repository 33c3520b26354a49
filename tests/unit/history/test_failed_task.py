"""What ends a task elsewhere is the same error here."""

from __future__ import annotations

import pytest

from millstream.history.worker import FAILURE, failure_text, produced
from millstream.model.errors import KINDS, MillstreamError


@pytest.mark.parametrize("kind", [MillstreamError, *KINDS])
def test_an_error_keeps_its_kind(kind: type[MillstreamError]) -> None:
    error = kind("what", detail="where", hint="what to do", code="E-OWN")
    with pytest.raises(MillstreamError) as raised:
        produced(FAILURE, 0, 0, failure_text(error).encode())
    assert type(raised.value) is kind
    assert (raised.value.code, str(raised.value)) == ("E-OWN", str(error))

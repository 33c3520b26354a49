"""Where tasks work: their states may be let go after it."""

from __future__ import annotations

import duckdb
import pytest

from millstream.functions.catalogue import builtin_catalogue
from millstream.history.workspace import Workspace


def test_a_state_that_is_let_go_after_its_workspace() -> None:
    workspace = Workspace(builtin_catalogue())
    with workspace.store() as store:
        assert store.cursor().sql("SELECT 1").fetchall() == [(1,)]
        workspace.close()
        with pytest.raises(duckdb.Error):
            store.cursor()

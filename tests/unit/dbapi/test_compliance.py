"""The published test suite of PEP 249, on streams: rows are read back by historical queries."""

from __future__ import annotations

import dbapi20

from millstream import dbapi


class TestCompliance(dbapi20.DatabaseAPI20Test):  # type: ignore[misc]
    driver = dbapi
    ddl1 = (
        "CREATE STREAM dbapi20test_booze (name STRING)"
        " WITH (KAFKA_TOPIC='booze', VALUE_FORMAT='JSON', PARTITIONS=1)"
    )
    ddl2 = (
        "CREATE STREAM dbapi20test_barflys (name STRING, drink STRING)"
        " WITH (KAFKA_TOPIC='barflys', VALUE_FORMAT='JSON', PARTITIONS=1)"
    )
    # There are no procedures with several results.
    test_nextset = None

    def test_non_idempotent_close(self) -> None:
        connection = dbapi.connect()
        connection.close()
        self.assertRaises(dbapi.Error, connection.close)

    def test_setoutputsize(self) -> None:
        cursor = dbapi.connect().cursor()
        cursor.setoutputsize(1000, 0)
        self.assertEqual(cursor.execute("SELECT 1").fetchall(), [(1,)])

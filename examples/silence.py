"""An alert for each device that has said nothing for ten minutes.

python examples/silence.py
"""

from __future__ import annotations

import datetime as dt

import millstream
from millstream import KeyValueStore, Processor, ProcessorContext, Record

MINUTE = dt.timedelta(minutes=1)
NOON = dt.datetime(2026, 1, 1, 12)
SQL = """
CREATE STREAM readings (device STRING KEY, degrees DOUBLE)
  WITH (KAFKA_TOPIC='readings', PARTITIONS=1, VALUE_FORMAT='JSON');
CREATE TABLE owners (device STRING PRIMARY KEY, mail STRING)
  WITH (KAFKA_TOPIC='owners', PARTITIONS=1, VALUE_FORMAT='JSON');
CREATE STREAM alerts AS
  SELECT s.device AS device, seen, mail
  FROM PROCESS(readings, 'Silence') s LEFT JOIN owners o ON s.device = o.device;
"""


class Silence(Processor):
    """A row for each device that has said nothing for ten minutes."""

    output = "device STRING KEY, seen TIMESTAMP"

    def init(self, context: ProcessorContext) -> None:
        self._context = context
        self._seen = context.store("seen", KeyValueStore("STRING", "TIMESTAMP"))
        context.schedule(MINUTE, millstream.STREAM_TIME, self._look)

    def process(self, record: Record) -> None:
        self._seen.put(record.key, record.timestamp)

    def _look(self, time: dt.datetime) -> None:
        for device, seen in self._seen.range():
            if time - seen >= 10 * MINUTE:
                self._context.forward(device, {"SEEN": seen})
                self._seen.delete(device)


FUNCTIONS = [millstream.processor(Silence)]


def run(database: millstream.Database) -> None:
    """Send readings of an hour, in which one device falls silent, and print the alerts."""
    database.execute(SQL)
    database.insert("owners", [("boiler", "ann@example.com")])
    database.wait()
    for minute in range(0, 60, 5):
        devices = ["boiler", "fridge"] if minute < 20 else ["fridge"]
        rows = [
            {"device": device, "degrees": 20.5, "ROWTIME": NOON + minute * MINUTE}
            for device in devices
        ]
        database.insert("readings", rows)
    database.wait()
    found = database.execute("SELECT device, seen, mail FROM alerts")
    assert isinstance(found, millstream.History)
    for device, seen, mail in found:
        print(f"{device} has said nothing since {seen:%H:%M}: tell {mail}")


if __name__ == "__main__":
    with millstream.connect(functions=FUNCTIONS) as opened:
        run(opened)

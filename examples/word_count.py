"""How often each word was used: a topology of two parts, with a topic between them.

python examples/word_count.py
"""

from __future__ import annotations

import re

import millstream
from millstream import KeyValueStore, Processor, ProcessorContext, Record, Topology


class Split(Processor):
    """A row for each word of a line, whose key is the word."""

    output = "word STRING KEY, line BIGINT"

    def init(self, context: ProcessorContext) -> None:
        self._context = context

    def process(self, record: Record) -> None:
        for word in re.findall(r"\w+", record.value["TEXT"].lower()):
            self._context.forward(word, {"LINE": record.offset})


class Count(Processor):
    """How many rows each key has had."""

    output = "word STRING KEY, n BIGINT"

    def init(self, context: ProcessorContext) -> None:
        self._context = context
        self._counts = context.store("counts", KeyValueStore("STRING", "BIGINT"))

    def process(self, record: Record) -> None:
        n = self._counts.get(record.key, 0) + 1
        self._counts.put(record.key, n)
        self._context.forward(record.key, {"N": n})


TOPOLOGY = (
    Topology()
    .add_source("lines", "lines", value="text STRING", partitions=1)
    .add_processor("split", Split, "lines")
    .add_sink("words", "words", "split", partitions=4)
    .add_source("of_one_key", "words")
    .add_processor("count", Count, "of_one_key")
    .add_sink("counts", "counts", "count")
)
FUNCTIONS = TOPOLOGY.processors("word_count")
LINES = [
    "All streams lead to Kafka",
    "Hello Kafka streams",
    "Join the mill, and streams will turn it",
]


def run(database: millstream.Database) -> None:
    """Send the lines, and print the last count of each word that was used twice or more."""
    database.deploy(TOPOLOGY, "word_count")
    database.insert("lines", [{"text": line} for line in LINES])
    database.wait()
    found = database.execute("SELECT * FROM counts")
    assert isinstance(found, millstream.History)
    counts = {str(word): int(n) for word, n in sorted(found)}
    for word, n in counts.items():
        if n > 1:
            print(f"{word}: {n}")


if __name__ == "__main__":
    with millstream.connect(functions=FUNCTIONS) as opened:
        run(opened)

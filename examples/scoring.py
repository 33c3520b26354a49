"""Scores of a model for whole batches: a processor that asks scikit-learn.

python examples/scoring.py
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from sklearn.linear_model import LogisticRegression

import millstream
from millstream import BatchContext, BatchProcessor

SQL = """
CREATE STREAM visits (visitor BIGINT KEY, duration DOUBLE, pages DOUBLE)
  WITH (KAFKA_TOPIC='visits', PARTITIONS=4, VALUE_FORMAT='JSON');
CREATE STREAM scores AS SELECT * FROM PROCESS(visits, 'Scored');
CREATE TABLE buyers WITH (KEY_FORMAT='JSON') AS
  SELECT likely, COUNT(*) AS visitors FROM PROCESS(visits, 'Scored') GROUP BY likely;
"""


def trained() -> LogisticRegression:
    """A model of who buys, from visits of which that is known."""
    chance = np.random.default_rng(7)
    visits = np.column_stack([chance.uniform(0, 600, 2_000), chance.integers(1, 9, 2_000)])
    return LogisticRegression().fit(visits, visits @ [0.01, 0.5] > 4)


class Scored(BatchProcessor):
    """How likely each visitor is to buy. A large model would be loaded in `init`, from a file: once
    for each task."""

    output = "visitor BIGINT KEY, score DOUBLE, likely BOOLEAN"

    def init(self, context: BatchContext) -> None:
        self._context, self._model = context, trained()

    def process(self, batch: pa.RecordBatch) -> None:
        columns = [batch[name].to_numpy(zero_copy_only=False) for name in ("DURATION", "PAGES")]
        scores = self._model.predict_proba(np.column_stack(columns))[:, 1]
        self._context.forward(
            {"VISITOR": batch["VISITOR"], "SCORE": scores, "LIKELY": scores > 0.5}
        )


FUNCTIONS = [millstream.processor(Scored)]


def run(database: millstream.Database) -> None:
    """Send visits, and print how many visitors are likely to buy."""
    database.execute(SQL)
    chance = np.random.default_rng(1)
    visits = pa.table(
        {
            "visitor": np.arange(10_000),
            "duration": chance.uniform(0, 600, 10_000),
            "pages": chance.integers(1, 9, 10_000).astype(float),
        }
    )
    database.insert("visits", visits)
    database.wait()
    for likely, visitors in sorted(database.table("buyers").fetchall()):
        print(f"{visitors} visitors are {'likely' if likely else 'not likely'} to buy")


if __name__ == "__main__":
    with millstream.connect(functions=FUNCTIONS) as opened:
        run(opened)

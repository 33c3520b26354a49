"""An engine that may lose its state at each start, and whose checkpoints are at a place that
fails, answers late, and leaves files out of its listings."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

LOADS = ".loads"
"""Behind the file's name: the file that has a line for each load of a checkpoint."""
_FAILING = 0.02
_LEFT_OUT = 0.1
_LATE_SECONDS = 0.003


class _Loads(logging.Handler):
    def __init__(self, path: str) -> None:
        super().__init__(logging.INFO)
        self._path = Path(path + LOADS)

    def emit(self, record: logging.LogRecord) -> None:
        """Note a load."""
        if "was loaded from checkpoints" in record.getMessage():
            with self._path.open("a") as file:
                file.write(f"{record.getMessage()}\n")


def prepare(path: str) -> None:
    """Lose the state in half of the calls, and make all places unreliable."""
    rng = random.Random()
    if rng.random() < 0.5:
        for file in Path(path).parent.glob(f"{Path(path).name}.state*"):
            file.unlink()
    logger = logging.getLogger("millstream")
    logger.setLevel(logging.INFO)
    logger.addHandler(_Loads(path))
    _make_unreliable(rng)


def _make_unreliable(rng: random.Random) -> None:
    from millstream.model.errors import UnavailableError
    from millstream.places.place import Place

    asked, names = Place._asked, Place.names

    def unreliable(self: Place, call: Callable[[], Any], what: str) -> Any:
        if rng.random() < _FAILING:
            raise UnavailableError("The store is away")
        time.sleep(rng.random() * _LATE_SECONDS)
        return asked(self, call, what)

    def incomplete(self: Place, folder: str) -> list[str]:
        return [name for name in names(self, folder) if rng.random() >= _LEFT_OUT]

    Place._asked = unreliable  # type: ignore[method-assign]
    Place.names = incomplete  # type: ignore[method-assign]

"""The failures of a simulation: faults of requests, and crashes."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import Enum


class SimulatedCrash(BaseException):
    """The process dies here. Not an `Exception`: no code under test may survive it."""


class Fault(Enum):
    """The fate of one request."""

    NONE = "none"
    REQUEST_LOST = "request lost"
    """The request never arrived. A transaction stays open until the writer's successor aborts it.
    """
    RESPONSE_LOST = "response lost"
    """The request was carried out, but the response was lost."""


def no_effect(_name: str) -> None:
    """No effect fails."""


def no_fault(_name: str) -> Fault:
    """Every request succeeds."""
    return Fault.NONE


@dataclass(slots=True)
class SeededFaults:
    """Faults at random, the same for the same seed and requests. Rates are probabilities; `calm`
    ends all faults, for the last phase of a simulation, in which everything must finish."""

    rng: random.Random
    request_lost: float = 0.05
    response_lost: float = 0.05
    calm: bool = False

    def __call__(self, _name: str) -> Fault:
        """The fault of the next request."""
        drawn = self.rng.random()
        if self.calm or drawn >= self.request_lost + self.response_lost:
            return Fault.NONE
        return Fault.REQUEST_LOST if drawn < self.request_lost else Fault.RESPONSE_LOST

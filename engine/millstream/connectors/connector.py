"""What is known of connectors, and of the plugins of which they can be made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from millstream.connectors import wordings
from millstream.model.errors import ConflictError, StatementError


@dataclass(frozen=True, slots=True)
class ConnectorTask:
    """A part of a connector: its state, such as RUNNING or FAILED, the worker that has it, and the
    error that ended it."""

    number: int
    state: str
    worker: str
    trace: str = ""


@dataclass(frozen=True, slots=True)
class Connector:
    """`kind`: source, sink or unknown. `topics`: those it has written or read so far."""

    name: str
    kind: str
    class_name: str
    state: str
    worker: str
    trace: str = ""
    tasks: tuple[ConnectorTask, ...] = ()
    topics: tuple[str, ...] = ()
    config: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def summary(self) -> str:
        """The state, with how many of the tasks run, as in `RUNNING (2/3 tasks RUNNING)`."""
        running = Counter(task.state for task in self.tasks)["RUNNING"]
        return f"{self.state} ({running}/{len(self.tasks)} tasks RUNNING)"


def connector_exists(name: str) -> ConflictError:
    """The error about a name that a connector has already."""
    hint = f'DROP CONNECTOR "{name}"; first, or CREATE … IF NOT EXISTS.'
    return wordings.CONNECTOR_TAKEN(name=name, hint=hint, code="E-CONNECTOR-EXISTS")


def missing_connector(name: str) -> StatementError:
    """The error about a name that no connector has."""
    return wordings.UNKNOWN_CONNECTOR(
        name=name, hint="SHOW CONNECTORS; lists the connectors there are."
    )


@dataclass(frozen=True, slots=True)
class ConnectorPlugin:
    """A class of which connectors can be made."""

    class_name: str
    kind: str
    version: str


class Connectors(Protocol):
    """Where connectors are: in Kafka Connect, or in this process. From any thread."""

    def check(self, name: str, config: Mapping[str, str]) -> None:
        """Raise StatementError if a configuration is wrong, without a request to Kafka Connect."""

    def create(self, name: str, config: Mapping[str, str]) -> Connector | None:
        """Start a connector; None if there is one of this name. Raises StatementError if its
        configuration is not valid."""

    def drop(self, name: str) -> bool:
        """End a connector and forget it; False if there is none."""

    def connectors(self) -> tuple[Connector, ...]:
        """All connectors, in the order of their names."""

    def connector(self, name: str) -> Connector | None:
        """One connector, with its topics; None if there is none of this name."""

    def plugins(self) -> tuple[ConnectorPlugin, ...]:
        """The classes of which connectors can be made."""

    def start(self) -> None:
        """Let them run, where they run in this process."""

    def close(self) -> None:
        """Stop them, where they run in this process, and release everything; idempotent."""

"""Who may touch the state of a query's tasks."""

from __future__ import annotations

from dataclasses import dataclass


class OwnershipError(RuntimeError):
    """Two would have held the state of one task: a bug of the runtime."""


@dataclass(frozen=True, slots=True)
class TaskOwnership:
    """Partitions of one query (task p of each of its sub-topologies): those whose state is
    `processing` in the hands of an execution, and those whose state is `following` its changelog.
    Never both; in between, nobody holds it.

    ```
    following --stopped--> nobody --taken--> processing
              <-followed--        <--given--
    ```
    """

    processing: frozenset[int] = frozenset()
    following: frozenset[int] = frozenset()

    def followed(self, partitions: frozenset[int]) -> TaskOwnership:
        """Their changelogs are followed from now on."""
        self._refuse(partitions & self.processing, "follow")
        return TaskOwnership(self.processing, self.following | partitions)

    def stopped(self, partitions: frozenset[int]) -> TaskOwnership:
        """They are not followed any more."""
        return TaskOwnership(self.processing, self.following - partitions)

    def taken(self, partitions: frozenset[int]) -> TaskOwnership:
        """An execution may open them from now on."""
        self._refuse(partitions & self.following, "process")
        return TaskOwnership(self.processing | partitions, self.following)

    def given(self, partitions: frozenset[int]) -> TaskOwnership:
        """The execution has closed them."""
        return TaskOwnership(self.processing - partitions, self.following)

    @staticmethod
    def _refuse(held: frozenset[int], intent: str) -> None:
        if held:
            raise OwnershipError(
                f"The state of partitions {sorted(held)} cannot be given to {intent}: it is held"
            )

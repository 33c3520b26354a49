"""Records which part of the runtime may touch the state of a query's tasks."""

from __future__ import annotations

from dataclasses import dataclass


class OwnershipError(RuntimeError):
    """Two owners would have held the state of one task: a bug of the runtime."""


@dataclass(frozen=True, slots=True)
class TaskOwnership:
    """Partitions of one query (task p of each of its sub-topologies): those whose state a query
    runner holds (`processing`), and those whose state follows its changelog (`following`). Never
    both; in between, the state has no owner.

    ```
    following --stopped--> nobody --taken--> processing
              <-followed--        <--given--
    ```
    """

    processing: frozenset[int] = frozenset()
    following: frozenset[int] = frozenset()

    def followed(self, partitions: frozenset[int]) -> TaskOwnership:
        """Note that their changelogs are followed from now on."""
        self._refuse(partitions & self.processing, "follow")
        return TaskOwnership(self.processing, self.following | partitions)

    def stopped(self, partitions: frozenset[int]) -> TaskOwnership:
        """Note that they are no longer followed."""
        return TaskOwnership(self.processing, self.following - partitions)

    def taken(self, partitions: frozenset[int]) -> TaskOwnership:
        """Let the query runner open them from now on."""
        self._refuse(partitions & self.following, "process")
        return TaskOwnership(self.processing | partitions, self.following)

    def given(self, partitions: frozenset[int]) -> TaskOwnership:
        """Note that the query runner has closed them."""
        return TaskOwnership(self.processing - partitions, self.following)

    @staticmethod
    def _refuse(held: frozenset[int], intent: str) -> None:
        if held:
            raise OwnershipError(
                f"The state of partitions {sorted(held)} cannot be given to {intent}: it is held"
            )

"""What the calls of functions in Python took and measured."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Calls:
    """The calls of a run, or of all runs of a query. `seconds`: how long they took; `counts`: what
    they have counted, by name; `values`: other figures, by name and partition."""

    seconds: float = 0.0
    counts: Mapping[str, float] = field(default_factory=dict)
    values: Mapping[tuple[str, int], float] = field(default_factory=dict)

    def plus(self, later: Calls) -> Calls:
        """These and later ones."""
        counts = self.counts
        if later.counts:
            names = dict.fromkeys((*counts, *later.counts))
            counts = {name: counts.get(name, 0) + later.counts.get(name, 0) for name in names}
        values = {**self.values, **later.values} if later.values else self.values
        return Calls(self.seconds + later.seconds, counts, values)

    def of(self, partitions: Collection[int]) -> Calls:
        """The same without the values of other partitions, whose tasks have left."""
        kept = {at: value for at, value in self.values.items() if at[1] in partitions}
        return Calls(self.seconds, self.counts, kept)

    @property
    def totals(self) -> Mapping[str, float]:
        """The values of all partitions together, by name."""
        found: dict[str, float] = {}
        for (name, _), value in self.values.items():
            found[name] = found.get(name, 0) + value
        return found


NO_CALLS = Calls()

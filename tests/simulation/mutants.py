"""Planted bugs."""

from tests.simulation.world import Mutant

MUTANTS: dict[str, Mutant] = {}

"""How long tests wait for what must come."""

from __future__ import annotations

PATIENCE_S = 120.0
"""Nothing takes so long, on however slow a machine: what has not come by then never does."""
PATIENCE_MS = int(1000 * PATIENCE_S)

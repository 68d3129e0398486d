"""How much of a result is shown where nobody asks for more or less."""

from __future__ import annotations

LINES = 5  # the costliest of a step

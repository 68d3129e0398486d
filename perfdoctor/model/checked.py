"""What a tip was held against."""

from __future__ import annotations

from enum import Enum


class Checked(str, Enum):
    """What a tip was held against, beyond facts made up by its author; best first."""

    SCRIPTS = "on scripts with this cause, and the gain of its cure"
    PUBLISHED = "its range, against gains that others published (docs/gpu.md)"
    CPU_SCRIPTS = "on CPUs only: scripts with this cause, and the gain of its cure"
    TRACES = "on recorded traces of devices; no gain was measured"
    FACTS = "on hand-made facts only"

    @property
    def label(self) -> str:
        """In a word, as in lists and documents."""
        return self.name.lower().replace("_", " ")

    @property
    def is_measured(self) -> bool:
        """Whether gains were measured where the advice is given."""
        return self is Checked.SCRIPTS

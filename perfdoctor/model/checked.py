"""What a tip was held against."""

from __future__ import annotations

from enum import Enum


class Checked(str, Enum):
    """What a tip was held against, beyond facts made up by its author; best first."""

    SCRIPTS = "on scripts with this cause, with the gain of the fix measured"
    PUBLISHED = "range compared with published gains (docs/gpu.md)"
    CPU_SCRIPTS = "on CPUs only: on scripts with this cause, with the gain of the fix measured"
    TRACES = "on recorded traces of devices; no gain was measured"
    FACTS = "on made-up measurements only"

    @property
    def label(self) -> str:
        """In a word, as in lists and documents."""
        return self.name.lower().replace("_", " ")

    @property
    def is_measured(self) -> bool:
        """Whether gains were measured where the advice is given."""
        return self is Checked.SCRIPTS

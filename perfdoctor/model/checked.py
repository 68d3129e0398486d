"""What a tip was held against."""

from __future__ import annotations

from enum import Enum


class Checked(str, Enum):
    """What a tip was held against, beyond facts made up by its author; best first."""

    SCRIPTS = "found in training scripts with its cause planted, and the cure's gain measured"
    PUBLISHED = "its range was held against gains that others published (docs/gpu.md)"
    CPU_SCRIPTS = "found in training scripts on CPUs, and the cure's gain measured there: not on a device"
    TRACES = "judged on recorded traces of real devices; its gain was not measured"
    FACTS = "tested on hand-made facts only"

    @property
    def label(self) -> str:
        """In a word, as in lists and documents."""
        return self.name.lower().replace("_", " ")

    @property
    def is_measured(self) -> bool:
        """Whether gains were measured where the advice is given."""
        return self is Checked.SCRIPTS

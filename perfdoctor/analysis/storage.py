"""The file systems that loaders read from, as samples of open files tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from perfdoctor.analysis.records import Json, number

FEW = 4  # samples with a file open: below it, which mount the data is on is chance


@dataclass(frozen=True)
class StorageFacts:
    """The mount on which those who read for the run had most files open. `kind` is the sampler's word."""

    mount: str
    filesystem: str
    kind: str
    samples: int


def storage_facts(samples: Sequence[Json]) -> StorageFacts | str:
    """The mount most read from, or why it is not known."""
    seen: Counter[tuple[str, str, str]] = Counter()
    for entry in samples:
        seen.update(
            (str(use.get("mount")), str(use.get("fs")), str(use.get("kind")))
            for use in entry.get("storage") or ()
            if isinstance(use, dict) and number(use.get("open"))
        )
    if not seen or seen.total() < FEW:
        return "too few files were seen open to tell where the data is"
    (mount, filesystem, kind), count = seen.most_common(1)[0]
    return StorageFacts(mount, filesystem, kind, count)

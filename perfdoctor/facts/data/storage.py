"""Tells which file system the data is read from, by samples of open files: StorageFacts."""

from __future__ import annotations

from collections import Counter

from perfdoctor.facts.decode import number
from perfdoctor.facts.host.resources import HostSamples
from perfdoctor.facts.registry import fact
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.missing import Missing

FEW = 4  # samples with a file open: below it, which mount the data is on is chance


@dataclass(frozen=True)
class StorageFacts:
    """The mount on which those who read for the run had most files open. `kind` is the sampler's word."""

    mount: str
    filesystem: str
    kind: str
    samples: int


@fact
def storage_facts(samples: HostSamples) -> StorageFacts | Missing:
    """The mount most read from."""
    seen: Counter[tuple[str, str, str]] = Counter()
    for entry in samples:
        seen.update(
            (str(use.get("mount")), str(use.get("fs")), str(use.get("kind")))
            for use in entry.get("storage") or ()
            if isinstance(use, dict) and number(use.get("open"))
        )
    if not seen or seen.total() < FEW:
        return Missing("too few open files were seen to locate the data")
    (mount, filesystem, kind), count = seen.most_common(1)[0]
    return StorageFacts(mount, filesystem, kind, count)

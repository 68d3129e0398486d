"""How many tensors a batch holds: each comes from a loader's worker in shared memory of its own.

The first batches of each loader are looked at, through lists, dictionaries and the attributes of objects,
which are read past what the script's own classes do instead.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, List, Tuple

from ...wire.events.loaders import BatchTensorsEvent
from ..containers import fields_of, first_of, is_a, is_mapping, is_sequence, values_of
from ..loader.batch_content import PLAIN
from ..observer import Watch, observer
from ..session import Session

BATCHES_MAX = 8  # of a loader: its first ones tell what its batches are like
EVENTS_MAX = 64  # written: scripts may make a loader an epoch
LOOKED_MAX = 4096  # of what a batch holds: a few milliseconds


class BatchTensors:
    """The batches of one process whose tensors are counted."""

    def __init__(self, session: Session, tensor: type) -> None:
        self.session = session
        self.tensor = tensor
        self.batches: Counter[int] = Counter()

    def look(self, loader: int, batch: Any) -> None:
        """Write down how many tensors there are in one of the first batches of a loader."""
        if self.batches[loader] >= BATCHES_MAX or sum(self.batches.values()) >= EVENTS_MAX:
            return
        self.batches[loader] += 1
        tensors, longest = counted(batch, self.tensor)
        self.session.write(BatchTensorsEvent(loader=loader, tensors=tensors, longest=longest))


@observer
def batch_tensors(watch: Watch) -> None:
    """Count the tensors of a few batches of each loader."""
    watch.on_batch("batch_tensors", BatchTensors(watch.session, watch.torch.Tensor).look)


def counted(batch: Any, tensor: type) -> Tuple[int, int]:
    """How many tensors a batch holds, each counted once, and the entries of the longest of its containers."""
    pending, seen = [batch], {id(batch)}
    tensors = longest = 0
    left = LOOKED_MAX
    while pending and left:
        left -= 1
        item = pending.pop()
        if is_a(item, tensor):
            tensors += 1
            continue
        held = _held(item)
        longest = max(longest, len(held) if is_sequence(item) or is_mapping(item) else 0)
        for one in held:
            if not is_a(one, PLAIN) and id(one) not in seen:
                seen.add(id(one))
                pending.append(one)
    return tensors, longest


def _held(item: Any) -> List[Any]:
    """What a container or an object holds; nothing of a list of numbers or texts."""
    if is_mapping(item):
        return values_of(item, LOOKED_MAX)
    if is_sequence(item):
        first = first_of(item, 1)
        return first_of(item, LOOKED_MAX) if first and not is_a(first[0], PLAIN) else []
    return list(fields_of(item).values())

"""What a dataset's code does again for every item: calls and values that are the same each time.

A few batches of each process, but not its first, are prepared under a profile function: see UserCalls.
"""

from __future__ import annotations

import os
from typing import Any, Dict, Optional

from ...wire.events.item_work import ItemWorkEvent
from ...wire.step_rows import DISTURBED
from ..containers import fields_of, is_a, values_of
from ..fetch_turns import NEVER
from ..looks.user_calls import UserCalls
from ..observer import Watch, observer
from ..wrapping import Args, Kwargs

NAME = "item_work"
ITEMS_ENOUGH, BATCHES_MAX = 64, 16
FIRST_IN_WORKER, FIRST = 2, 64  # batch that is looked at; where it is made in a step, the step is not timed
REACHED_MAX = 500  # objects that belong to a dataset
LATE = 200  # batches delivered: workers that begin later belong to another epoch, and need not look again


class ItemWork:
    """What one process's batches were seen to do."""

    def __init__(self, watch: Watch) -> None:
        self.session = watch.session
        self.fetches = watch.steps.fetches
        self.moments = watch.moments
        self.begin_process()

    def begin_process(self, inside: bool = False) -> None:
        """Forget what another process saw; `inside` its first batch, or before it."""
        self.pid = os.getpid()
        self.begin = self.fetches.count - inside  # batches before this process's first
        self.turn = FIRST_IN_WORKER if self.session.in_worker() else FIRST  # the batch that is looked at next
        self.looked = self.items = 0
        self.seen = UserCalls(NAME)
        self.seen.over = self.moments.batches > LATE

    def before_fetch(self, args: Args, kwargs: Kwargs) -> Optional[bool]:
        """Look at this batch, if it is one of the few."""
        if self.pid != os.getpid():
            self.begin_process(inside=True)
        if self.seen.over or self.fetches.count < self.next():
            return None
        self.turn *= 2  # most batches are left alone
        if not self.seen.begin(_reached(args[0])):
            return None
        self.session.slowed = True
        recorder = self.session.recording()
        if recorder is not None:  # this process trains: the step will take longer
            recorder.flags |= DISTURBED
        return True

    def next(self) -> int:
        """The count of the batch that has its turn next."""
        return NEVER if self.seen.over else self.begin + self.turn

    def after_fetch(self, token: bool, args: Args, result: Any) -> None:
        """Look away, and write down what was seen until now."""
        seen = self.seen
        cut = seen.over
        seen.end()
        self.session.slowed = False
        self.looked += 1
        whole = len(args[1]) if len(args) > 1 and is_a(args[1], list) else 1
        self.items += max(seen.outermost.values(), default=1) if cut else whole
        if self.items >= ITEMS_ENOUGH or self.looked >= BATCHES_MAX:
            seen.over = True
        if self.session.tag is not None:
            functions, calls, small = seen.told()
            self.session.append(
                ItemWorkEvent(items=self.items, functions=functions, calls=calls, small=small)
            )
        if seen.over:
            seen.clear()


def _reached(fetcher: Any) -> Dict[int, Any]:
    """What belongs to a dataset and how its batches are collated, by id: it lives on from item to item."""
    found: Dict[int, Any] = {}
    waiting = [getattr(fetcher, "dataset", None), getattr(fetcher, "collate_fn", None)]
    while waiting and len(found) < REACHED_MAX:
        value: Any = waiting.pop(0)
        if id(value) in found or is_a(value, (int, float, str, bytes, type(None))):
            continue
        found[id(value)] = None
        if type(value) in (list, tuple):
            waiting.extend(value[:16])
        elif type(value) is dict:
            waiting.extend(values_of(value, 16))
        else:
            waiting.extend(values_of(fields_of(value), 64))
    return found


@observer
def item_work(watch: Watch) -> None:
    """Look at a few batches of each process that prepares them, the first one left out."""
    work = ItemWork(watch)
    watch.on_fetch(NAME, work.before_fetch, work.after_fetch, work.next)

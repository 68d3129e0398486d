"""What the ranks exchange, call by call: when, how much, how long the training thread was blocked.

Calls of one kind in one group are numbered, from the first on and in every thread, so that a call has the
same number in all ranks: they make the same calls in the same order, or they hang.
"""

from __future__ import annotations

import weakref
from _thread import get_ident
from typing import Any, Dict, Optional, Set, Tuple

from ...wire.collective_rows import (
    ASYNC,
    COLLECTIVES,
    INSIDE_BYTE,
    NOW,
    NOW_BYTE,
    OTHER_OP,
    OUTSIDE_GRAD_SYNC,
    UNKNOWN_GROUP,
)
from ...wire.events.ranks import CollectivesEvent, GroupEvent
from ...wire.files import MappedRows
from ...wire.step_rows import BACKWARD, CHECKPOINT, DATA_WAIT, GRAD_SYNC, VALIDATION
from .. import patch
from ..recorder import EVAL_FORWARD, RAW_ROWS, ROWS_PER_MERGE, Recorder, clock
from ..session import Session
from ..wrapping import Args, Kwargs

# What is told of a call: its kind, the argument that is exchanged (place and name), whether that is one
# rank's share of the whole, the place of its group, and whether `async_op`, which comes next, can free it.
CallSignature = Tuple[int, int, str, bool, int, bool]

CollectiveCall = Tuple[int, int, int, int, int]  # kind, group, its ranks, number of the call, bytes
# One that blocks: whose steps it belongs to, if it is recorded; its begin; when it blocked the thread; flags.
BlockedCall = Tuple[Optional[Recorder], CollectiveCall, int, int, int]

STAYS = frozenset((DATA_WAIT, VALIDATION, CHECKPOINT, EVAL_FORWARD))  # exchanges inside belong to it


class WorkHandle(weakref.ref):  # type: ignore[type-arg]
    """What a call returned at once. A dictionary with weak keys runs Python, at which torch.compile looks."""

    __slots__ = ("key",)
    key: int


class PendingCall:
    """A call that returned at once, for as long as its handle lives."""

    __slots__ = ("begin", "collective", "handle", "over")

    def __init__(self, collective: CollectiveCall, begin: int) -> None:
        self.collective = collective
        self.begin = begin
        self.over = False  # it was waited for
        self.handle: Any = None


class GradientSync:
    """The exchanges of one process."""

    def __init__(self, session: Session, distributed: Any) -> None:
        self.session = session
        self.distributed = distributed
        self.rows: Optional[MappedRows] = None
        self.recorder: Optional[Recorder] = None  # whose steps the rows belong to: a forked child has another
        self.written = 0
        self.every = 1  # of so many steps, one is written
        self.sequences: Dict[int, int] = {}  # by kind and group: calls so far
        self.groups: Dict[Optional[str], Tuple[int, int]] = {}  # by name: number, and ranks
        self.smaller = 0  # groups met besides the default one
        self.inside: Set[int] = set()  # threads in a call, whose calls in turn are part of it
        self.works: Dict[int, PendingCall] = {}  # by identity of the handle, as long as it lives
        self.forget = patch.part("grad_sync", self._forget)
        self.calls = self.written_calls = self.own_ns = 0

    # ------------------------------------------------------------ calls

    # These run in the training loop, cold in the caches each time: a function more costs half a microsecond.
    # So what is named below, `next`, `show`, `add` and `hide`, stands written out here.

    def before_call(self, signature: CallSignature, args: Args, kwargs: Kwargs) -> Any:
        """Enter grad_sync, if the call blocks the thread that trains."""
        now = clock()
        thread = get_ident()
        if thread in self.inside:
            return None
        kind, place, name, is_share, group_place, may_return = signature
        group = args[group_place] if len(args) > group_place else kwargs.get("group")
        known = self.groups.get(None) if group is None else None
        if known is None:
            known = self.group(group)
            if known is None:
                return None
        number, ranks = known
        size = _size(args[place] if len(args) > place >= 0 else kwargs.get(name))
        key = number << 3 | kind
        sequence = self.sequences.get(key, 0)
        self.sequences[key] = sequence + 1
        collective = kind, number, ranks, sequence, size * ranks if is_share else size
        self.inside.add(thread)
        if may_return and (args[group_place + 1] if len(args) > group_place + 1 else kwargs.get("async_op")):
            return PendingCall(collective, now)
        return self._block(collective, 0, 0, thread, now)

    def after_call(self, call: Any, result: Any) -> None:
        """Leave grad_sync and write the row; of a call that returned at once when it is waited for."""
        self.inside.discard(get_ident())
        if type(call) is tuple:
            self._unblock(call)
        elif isinstance(result, self.distributed.Work):
            self._keep(result, call)

    def before_wait(self, args: Args, kwargs: Kwargs) -> Optional[BlockedCall]:
        """Enter grad_sync where the thread that trains waits for a call to end."""
        thread = get_ident()
        if thread in self.inside:
            return None
        now = clock()
        call = self.works.get(id(args[0]))
        if call is None:
            collective = OTHER_OP, UNKNOWN_GROUP, 0, self.next(OTHER_OP, UNKNOWN_GROUP), 0
            call = PendingCall(collective, now)
            self._keep(args[0], call)
        if call.over:
            return None  # it was waited for before
        call.over = True
        return self._block(call.collective, call.begin, ASYNC, thread, now)

    def after_wait(self, call: BlockedCall, args: Args, result: Any) -> None:
        """Leave grad_sync, and write the row of the call that was waited for."""
        self._unblock(call)

    def _keep(self, work: Any, call: PendingCall) -> None:
        call.handle = handle = WorkHandle(work, self.forget)
        handle.key = id(work)
        self.works[id(work)] = call

    def _forget(self, handle: WorkHandle) -> None:
        self.works.pop(handle.key, None)

    def _block(
        self, collective: CollectiveCall, begin: int, flags: int, thread: int, now: int
    ) -> BlockedCall:
        """This thread may be blocked now, which matters where it trains or computes a backward pass.

        Of a call that did not begin before, `begin` is 0.
        """
        recorder = self.session.recorder
        if recorder is None or recorder.off:
            return None, collective, begin, now, flags
        if recorder.owner == thread:
            rows = self.rows if self.recorder is recorder else None
            if rows is None:
                rows = self._file(recorder)
            kind, number, _, sequence, size = collective
            NOW.pack_into(rows.map, NOW_BYTE, now, recorder.updates, size, sequence, number, kind, 1)
        elif recorder.current != BACKWARD:
            return None, collective, begin, now, flags
        if recorder.owner != thread or recorder.current in STAYS:
            flags |= OUTSIDE_GRAD_SYNC
            waited = clock()
        else:
            recorder.enter(GRAD_SYNC)
            waited = recorder.since
        self.own_ns += waited - now
        return recorder, collective, begin or waited, waited, flags

    def _unblock(self, call: BlockedCall) -> None:
        recorder, collective, begin, waited, flags = call
        if recorder is None:
            return
        if flags & OUTSIDE_GRAD_SYNC:
            end = clock()
        else:
            recorder.leave()
            end = recorder.since
        rows = self.rows
        if self.recorder is not recorder or rows is None or self.every > 1:
            self.add(recorder, collective, begin, end, end - waited, flags)
        else:
            self.calls += 1
            kind, number, ranks, sequence, size = collective
            rows.add(
                end, begin, end - waited, size, recorder.updates, sequence, kind, flags, number, ranks, 1
            )
            self.written += 1
            if self.written >= RAW_ROWS:
                self._thin()
        if self.rows is not None and recorder.owner == get_ident():
            self.rows.map[INSIDE_BYTE] = 0
        self.own_ns += clock() - end

    # ------------------------------------------------------------ groups and numbers

    def group(self, group: Any) -> Optional[Tuple[int, int]]:
        """The number of a group in this process, 0 for the default one, and how many ranks are in it."""
        if group is None:
            name = None
        elif isinstance(group, self.distributed.ProcessGroup):
            name = group.group_name
        else:
            return None  # this rank is in no such group
        known = self.groups.get(name)
        return known if known is not None else self._meet(name, group)

    def _meet(self, name: Optional[str], group: Any) -> Optional[Tuple[int, int]]:
        distributed = self.distributed
        if not distributed.is_initialized():
            return None
        default = distributed.distributed_c10d._get_default_group()
        if name is None or name == default.group_name:
            known = self.groups[None] = self.groups[default.group_name] = 0, default.size()
            self._tell_group(0, default, None)
            return known
        self.smaller += 1
        known = self.groups[name] = min(self.smaller, UNKNOWN_GROUP - 1), group.size()
        self._tell_group(known[0], group, distributed.get_process_group_ranks(group))
        return known

    def _tell_group(self, number: int, group: Any, ranks: Any) -> None:
        self.session.write(
            GroupEvent(
                number=number,
                name=group.group_name,
                size=group.size(),
                backend=group.name(),
                ranks=ranks,
            )
        )

    def next(self, kind: int, number: int) -> int:
        """The number of the next call of a kind in a group; kind 0 counts exchanges of gradients."""
        key = number << 3 | kind
        sequence = self.sequences.get(key, 0)
        self.sequences[key] = sequence + 1
        return sequence

    # ------------------------------------------------------------ the file

    def add(
        self,
        recorder: Recorder,
        collective: CollectiveCall,
        begin: int,
        end: int,
        wait: int,
        flags: int,
        buckets: int = 1,
    ) -> None:
        """Write one row, of a long run only in some of its steps: the same ones in all ranks."""
        self.calls += 1
        kind, number, ranks, sequence, size = collective
        if (recorder.updates or sequence) % self.every:
            return
        self._file(recorder).add(
            end, begin, wait, size, recorder.updates, sequence, kind, flags, number, ranks, buckets
        )
        self.written += 1
        if self.written >= RAW_ROWS:
            self._thin()

    def _thin(self) -> None:
        """Of a long run, write a row only in every second step of those that had one."""
        if (self.written - RAW_ROWS) % ROWS_PER_MERGE == 0:
            self.every *= 2

    def show(self, recorder: Recorder, collective: CollectiveCall, begin: int) -> None:
        """Say in the header of the file which call this rank is in: a rank that hangs writes no row."""
        kind, number, _, sequence, size = collective
        NOW.pack_into(
            self._file(recorder).map, NOW_BYTE, begin, recorder.updates, size, sequence, number, kind, 1
        )

    def hide(self) -> None:
        """The rank is in no call any more."""
        if self.rows is not None:
            self.rows.map[INSIDE_BYTE] = 0

    def _file(self, recorder: Recorder) -> MappedRows:
        if self.rows is None or self.recorder is not recorder:
            path = self.session.rows_path("collectives")
            self.rows, self.recorder = MappedRows(path, COLLECTIVES, self.session.rank), recorder
            self.written, self.every = 0, 1
        return self.rows

    def pulse(self) -> None:
        """Write how many calls were recorded so far, and what that took."""
        if self.calls != self.written_calls:
            self.written_calls = self.calls
            self.session.write(CollectivesEvent(calls=self.calls, own_s=self.own_ns / 1e9))


def install(exchange: GradientSync) -> None:
    """Watch the handles that calls return."""
    patch.wrap(exchange.distributed.Work, "wait", exchange.before_wait, exchange.after_wait, "grad_sync")


def _size(value: Any) -> int:
    """Bytes of a tensor, or of all in a list."""
    if type(value) is list or isinstance(value, tuple):
        return sum(_size(each) for each in value)
    return int(value.numel() * value.element_size()) if hasattr(value, "element_size") else 0

"""Activation checkpointing: how long parts of the forward pass run again inside backward, by which line.

Watched is what torch.utils.checkpoint does, not `checkpoint` itself: scripts and libraries keep that function
under names of their own, and torch.compile knows it by identity.
"""

from __future__ import annotations

from _thread import get_ident
from typing import Any, Dict, Optional

from ...wire.events.recomputation import RecomputationEvent
from ..observer import Watch, observer
from ..recorder import clock
from ..user_frames import user_line
from ..wrapping import Args, Kwargs, nothing

NAME = "recomputation"


class Recomputations:
    """Running totals of one process, from its first step on."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.calls = 0
        self.seconds = 0.0
        self.line: Optional[Dict[str, Any]] = None
        self.written = 0
        self.began_ns: Dict[int, int] = {}  # by thread: a device's backward runs in one of autograd's

    def forward(self, args: Args, kwargs: Kwargs) -> None:
        """Note the line that runs a part which will run again."""
        if self.line is None:
            self.line = user_line()

    def begin(self, args: Args, kwargs: Kwargs) -> None:
        """Start the clock of this thread."""
        self.began_ns[get_ident()] = clock()

    def end(self) -> None:
        """Add up what this thread computed again, if it did."""
        began_ns = self.began_ns.pop(get_ident(), None)
        recorder = self.watch.session.recorder
        if began_ns is not None and recorder is not None and not recorder.off and recorder.written:
            self.seconds += (clock() - began_ns) / 1e9
            self.calls += 1

    def before_exit(self, args: Args, kwargs: Kwargs) -> None:
        """Stop the clock where the recomputation is left."""
        self.end()

    def before_backward(self, args: Args, kwargs: Kwargs) -> bool:
        """Start the clock where the reentrant kind is about to compute again."""
        self.begin(args, kwargs)
        return True

    def after_backward(self, token: bool, args: Args, result: Any) -> None:
        """Forget a clock that nobody stopped: the recomputation failed."""
        self.began_ns.pop(get_ident(), None)

    def write(self) -> None:
        """Write the totals, if they grew."""
        if self.calls != self.written:
            self.written = self.calls
            self.watch.write(RecomputationEvent(calls=self.calls, seconds=self.seconds, at=self.line))


@observer
def recomputation(watch: Watch) -> None:
    """Time recomputation, of both kinds of checkpoint.

    The reentrant one computes again at the begin of its own backward, until it calls the backward of what it
    computed. The other one does so when a tensor that it did not save is asked for.
    """
    totals = Recomputations(watch)

    def install(module: Any) -> None:
        reentrant, other = module.CheckpointFunction, module._recomputation_hook
        watch.wrap(reentrant, "forward", totals.forward, nothing, NAME)
        watch.wrap(reentrant, "backward", totals.before_backward, totals.after_backward, NAME)
        watch.wrap(module._checkpoint_hook, "__init__", totals.forward, nothing, NAME, method=True)
        watch.wrap(other, "__enter__", totals.begin, nothing, NAME, method=True)
        watch.wrap(other, "__exit__", totals.before_exit, nothing, NAME, method=True)

    watch.on_nested_backward(NAME, totals.end)
    watch.on_import("torch.utils.checkpoint", NAME, install)
    watch.each_second(NAME, totals.write)

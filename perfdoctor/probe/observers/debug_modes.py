"""Modes made for finding errors that are left on while training: which, how often, and who turned them on."""

from __future__ import annotations

import math
import os
import traceback
from typing import Any, Callable, Dict, List, Optional, Tuple

from ...wire.events.training import AnomalyEvent, DebugModeEvent
from .. import patch
from ..observer import Watch, observer
from ..profiler.users_profiler import UsersProfilers
from ..recorder import Recorder, clock
from ..session import Session
from ..user_frames import user_line
from ..wrapping import Args, always

BLOCKING_VARIABLE = "CUDA_LAUNCH_BLOCKING"
WEIGHED = 3  # graphs that anomaly detection watches, weighed: each costs about as much as one backward of it
NODES_MAX = 5_000  # of a graph; a larger one is weighed in part, and told to be larger
TRIES = 5  # of each piece of work that is timed: the median counts
TRACEBACK = "traceback_"  # where torch keeps the lines of a node's traceback


class DebugModes:
    """Which modes are on at each sample, and the lines that turned them on."""

    def __init__(self, session: Session, torch: Any, profilers: UsersProfilers) -> None:
        self.session = session
        self.torch = torch
        self.profilers = profilers
        self.samples = 0
        self.seen: Dict[str, int] = {}  # mode -> samples at which it was on
        self.lines: Dict[str, Optional[Dict[str, Any]]] = {}
        self.written = 0
        self.weighed = 0
        self.weigh = patch.guarded("anomaly detection", self._weigh)

    def sample(self, recorder: Recorder, loss: Any) -> None:
        """Ask torch which modes are on."""
        self.samples += 1
        for mode in self._on():
            self.seen[mode] = self.seen.get(mode, 0) + 1
            if mode == "anomaly" and self.weighed < WEIGHED:
                self.weigh(loss)

    def _weigh(self, loss: Any) -> None:
        """Tell what anomaly detection does to a graph, where nothing has to wait for a device to know it."""
        if type(loss) is self.torch.Tensor and loss.is_cpu and loss.grad_fn is not None:
            self.weighed += 1
            weighed = _weigh(loss)
            if not self.torch.is_anomaly_check_nan_enabled():
                weighed["gradients"] = 0
            self.session.write(AnomalyEvent(**weighed))

    def _on(self) -> Tuple[str, ...]:
        torch = self.torch
        on_cuda = torch.cuda.is_initialized()
        modes = {
            "anomaly": torch.is_anomaly_enabled(),
            "deterministic": torch.are_deterministic_algorithms_enabled(),
            "profiler": bool(self.profilers.prepared),
            "sync": on_cuda and bool(torch.cuda.get_sync_debug_mode()),
            "blocking": on_cuda and os.environ.get(BLOCKING_VARIABLE, "0") not in ("", "0"),
        }
        return tuple(mode for mode, is_on in modes.items() if is_on)

    def noting(self, mode: str) -> Callable[[Any, Args, Any], None]:
        """A hook after a call that may have turned a mode on: remember its line."""

        def after(token: Any, args: Args, result: Any) -> None:
            self.lines[mode] = user_line()

        return after

    def pulse(self) -> None:
        """Write the totals of each mode that was seen."""
        if not self.seen or self.samples == self.written:
            return
        self.written = self.samples
        for mode, seen in self.seen.items():
            at = self.lines.get(mode)
            if mode == "profiler":
                at = self.profilers.line
            self.session.write(DebugModeEvent(mode=mode, looks=self.samples, seen=seen, at=at))


def _weigh(loss: Any) -> Dict[str, Any]:
    """Frames in the tracebacks of a graph, the gradients that are looked at, and what one of each costs."""
    nodes: List[Any] = [loss.grad_fn]
    known = set(nodes)
    frames = gradients = elements = 0
    for node in nodes:  # grows on the way
        frames += len(node.metadata.get(TRACEBACK, ()))
        edges = [edge for edge in node.next_functions if edge[0] is not None]
        gradients += len(edges)
        elements += sum(_elements(*edge) for edge in edges)
        new = [parent for parent in dict.fromkeys(parent for parent, _ in edges) if parent not in known]
        if len(known) + len(new) > NODES_MAX:
            break
        known.update(new)
        nodes += new
    usual = loss.detach().new_zeros(elements // max(1, gradients))
    return {
        "nodes": len(known),
        "frames": frames,
        "gradients": gradients,
        "frame_s": _usual_s(traceback.format_stack) / len(traceback.format_stack()),
        "gradient_s": _usual_s(lambda: usual.isnan().any().item()),
    }


def _elements(node: Any, number: int) -> int:
    """The size of a gradient that a node is given."""
    given = getattr(node, "_input_metadata", None)  # torch before 2.1 does not tell
    return math.prod(given[number].shape) if given else 0


def _usual_s(work: Callable[[], object]) -> float:
    """Seconds of the median of a few calls."""
    times = []
    for _ in range(TRIES):
        begin = clock()
        work()
        times.append(clock() - begin)
    return sorted(times)[TRIES // 2] / 1e9


@observer
def debug_modes(watch: Watch) -> None:
    """Watch the calls that turn modes on, and ask which are on before a few of the backwards."""
    torch = watch.torch
    modes = DebugModes(watch.session, torch, watch.profilers)
    for owner, name, mode in (
        (torch.autograd.set_detect_anomaly, "__init__", "anomaly"),
        (torch.autograd.detect_anomaly, "__enter__", "anomaly"),
        (torch, "use_deterministic_algorithms", "deterministic"),
        (torch, "set_deterministic_debug_mode", "deterministic"),
        (torch.cuda, "set_sync_debug_mode", "sync"),
    ):
        watch.wrap(owner, name, always, modes.noting(mode), "debug mode")
    watch.before_some_backwards("debug mode", modes.sample)
    watch.each_second("debug mode", modes.pulse)

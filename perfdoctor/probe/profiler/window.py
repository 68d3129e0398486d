"""One window: torch.profiler over a few annotated steps, exported as plain JSON."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional

from ...wire.events.training import WindowEvent
from .. import accelerators
from ..recorder import clock
from . import budget
from .cupti import cupti_taken, let_go_after_windows

# How the profiler calls the devices that it can record; a vendor's own have one name together.
ACTIVITIES = {"cuda": "CUDA", "xpu": "XPU", "mtia": "MTIA", "hpu": "HPU", "mps": ""}
OTHERS = "PrivateUse1"


def is_recorded(used: Optional[accelerators.Accelerator]) -> bool:
    """Whether torch's profiler can record what a device does."""
    return used is not None and bool(ACTIVITIES.get(used.kind, OTHERS))


class ProfilerWindow:
    """A window that is planned, open or over. Every call belongs to the thread that trains.

    Where its first step is warm-up, that has no annotation and is not counted.
    """

    def __init__(self, kind: int, first_step: int, steps: int) -> None:
        self.kind = kind
        self.first_step = first_step
        self.steps = steps
        self.warm_up = budget.warm_up(kind, steps)
        self.begun = 0  # steps begun, without warm-up
        self.calls: Optional[int] = None  # of the step before, where they were counted
        self.count_s = 0.0
        self.profile: Any = None
        self.activities: List[str] = []
        self.because: Optional[str] = None  # why an activity is left out
        self.annotation_ns: Dict[str, int] = {}  # just before each annotation begins
        self.opened_ns = self.end_ns = 0
        self.start_s = self.stop_s = self.export_s = 0.0
        self.bytes = 0
        self._annotation: Any = None
        self._torn = False

    def start(self, torch: Any) -> None:
        """Open torch's profiler: the CPU, and the device if the script has initialised it."""
        from torch.profiler import ProfilerActivity, _KinetoProfile

        self.opened_ns = clock()
        activities = [ProfilerActivity.CPU]
        used = accelerators.in_use(torch)
        if used is not None:
            known = getattr(ProfilerActivity, ACTIVITIES.get(used.kind, OTHERS), None)
            self.because = cupti_taken(os.environ) if used.kind == accelerators.CUDA else None
            if known is None:
                self.because = f"torch's profiler does not record {used.kind} devices"
            if self.because is None:
                activities.append(known)
                if used.kind == accelerators.CUDA:
                    let_go_after_windows(torch, os.environ)
        self.activities = [activity.name.lower() for activity in activities]
        shapes = self.kind == budget.SHAPES
        self.profile = _KinetoProfile(
            activities=activities,
            record_shapes=shapes,
            with_flops=shapes,
            with_stack=self.kind == budget.STACKS,
        )
        self.profile.start()
        self.start_s = (clock() - self.opened_ns) / 1e9
        if not self.warm_up:
            self.next_step(torch)

    def next_step(self, torch: Any) -> bool:
        """At a border: end one step's annotation, begin the next one's. False where that was the last."""
        self._end_annotation()
        if self.begun == self.steps:
            return False
        name = f"ProfilerStep#{self.first_step + self.begun}"
        annotation = torch.autograd.profiler.record_function(name)
        self.annotation_ns[name] = clock()
        annotation.__enter__()
        self._annotation = annotation
        self.begun += 1
        return True

    def _end_annotation(self) -> None:
        if self._annotation is not None:
            self._annotation.__exit__(None, None, None)
            self._annotation = None
            self.end_ns = clock()

    def stop(self) -> None:
        """End the profiler. An annotation left open would make torch write to stderr."""
        begin = clock()
        self._end_annotation()
        if self._torn:
            self.profile.profiler._prepare_trace()  # there must be a session to end, or torch crashes
        self.profile.stop()
        self.stop_s = (clock() - begin) / 1e9

    def tear(self) -> None:
        """End the profiler from another thread: the last resort, since torch writes warnings to stderr.

        The thread that opened it still has to `stop` it, when nobody else profiles.
        """
        self._torn = True
        self.profile.stop()

    def export(self, path: str) -> None:
        """Write the trace under a draft's name first; `bytes` stays 0 where it did not come out whole."""
        begin = clock()
        draft = path + ".part"
        self.profile.export_chrome_trace(draft)
        self.profile = None
        try:
            os.chmod(draft, 0o600)
            with open(draft, "rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - 16))
                is_complete = file.read().rstrip().endswith(b"}")
            if is_complete:
                os.replace(draft, path)
                self.bytes = size
            else:
                os.remove(draft)
        except OSError:
            pass  # a full or vanished run directory
        self.export_s = (clock() - begin) / 1e9

    def slowdown_s(self, step_s: float) -> float:
        """By how much its steps, warm-up included, took longer than usual ones of `step_s` seconds."""
        counted_s = (self.end_ns - self.begin_ns) / 1e9
        return max(0.0, counted_s / self.steps - step_s) * (self.steps + self.warm_up)

    @property
    def begin_ns(self) -> int:
        """When its first counted step began; before that, when it was opened."""
        return min(self.annotation_ns.values(), default=self.opened_ns)

    def event(self, path: str, outcome: str, because: Optional[str]) -> WindowEvent:
        """What is written down of it."""
        return WindowEvent(
            index=self.kind,
            kind=budget.NAMES[self.kind],
            file=os.path.basename(path) if outcome == "ok" else None,
            first_step=self.first_step,
            steps=self.steps,
            begin_ns=self.begin_ns,
            end_ns=self.end_ns,
            annotation_ns=self.annotation_ns,
            start_s=self.start_s,
            stop_s=self.stop_s,
            export_s=self.export_s,
            bytes=self.bytes,
            activities=self.activities,
            outcome=outcome,
            because=because,
            warm_up=self.warm_up,
            calls=self.calls,
            count_s=self.count_s,
        )

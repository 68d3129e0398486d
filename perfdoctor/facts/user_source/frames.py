"""Reads frames of folded stacks: whose code they are, and which phase the probe's wrappers stand for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from functools import cached_property, lru_cache

from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Phase
from perfdoctor.model.user_code import GENERATED

_FRAME = re.compile(r"^(?P<function>.*) \((?P<file>.*?)(?::(?P<line>\d{1,9}))?\)$")
_PROBE = re.compile(r"perfdoctor[/\\](?:probe|tweaks|wire)[/\\]")
_PROFILER = re.compile(r"perfdoctor[/\\]probe[/\\]profiler[/\\]")
_INSTALLED = re.compile(r"[/\\](?:site|dist)-packages[/\\]")
# All of a path up to the folder that packages, or Python's own modules, lie in.
_ABOVE = re.compile(r".*[/\\](?:(?:site|dist)-packages|lib(?:64)?[/\\]python\d[^/\\]*)(?=[/\\])")
_STANDARD = re.compile(r"[/\\]lib(?:64)?[/\\]python\d[^/\\]*[/\\]|^<|^$")
_TORCH = re.compile(rf"[/\\](?:site|dist)-packages[/\\]torch[/\\]|{GENERATED}")
# Entered to compile only: what runs compiled code does not pass through them.
_COMPILER = re.compile(r"[/\\]torch[/\\](?:_dynamo[/\\]convert_frame|_inductor[/\\]compile_fx)\.py$")
# Seen through its hooks: no frame of the probe.
_OPTIMIZER = re.compile(r"torch[/\\]optim[/\\]optimizer\.py$")
# What trainers call the callbacks by that they were given: of Lightning, transformers, ignite.
_CALLBACKS = frozenset(("_call_callback_hooks", "call_event", "_fire_event"))
_OPTIMIZERS = re.compile(r"torch[/\\]optim[/\\](?!optimizer\.py)")

WRAPPERS = {
    "data_wait": Phase.DATA_WAIT,
    "host_to_device": Phase.HOST_TO_DEVICE,
    "module_call": Phase.FORWARD,
    "forward": Phase.FORWARD,
    "backward": Phase.BACKWARD,
    "grad_sync": Phase.GRAD_SYNC,
    "optimizer": Phase.OPTIMIZER,
    "validation": Phase.VALIDATION,
    "checkpoint": Phase.CHECKPOINT,
}


class Owner(Enum):
    """Whose code a frame runs."""

    USER = "user"
    TORCH = "torch"
    LIBRARY = "library"  # installed packages and the standard library
    PROBE = "probe"


@dataclass(frozen=True)
class Frame:
    """One frame of a stack. The same one is in hundreds of stacks: what it is asked for is kept."""

    function: str
    file: str
    line: int
    owner: Owner

    @cached_property
    def name(self) -> str:
        """The function's own name: samplers may write `Trainer.fit` or `main.<locals>.fit` for `fit`."""
        return self.function.rpartition(".")[2] or self.function

    @property
    def is_standard(self) -> bool:
        """Whether it is of Python's own library."""
        return self.owner is Owner.LIBRARY and not _INSTALLED.search(self.file)

    @cached_property
    def module_path(self) -> str:
        """The file below the folder that packages lie in: `/torch/optim/sgd.py`; else all of its path.

        The folders above have names of their own: an environment may lie in a project called `redis`.
        """
        return _ABOVE.sub("", self.file, count=1)

    @cached_property
    def compiles(self) -> bool:
        """Whether torch.compile is at work below it."""
        return bool(_COMPILER.search(self.file))

    @cached_property
    def profiles(self) -> bool:
        """Whether it is the probe at work on a profiler window, in no time of the script's."""
        return bool(_PROFILER.search(self.file))

    @cached_property
    def phase(self) -> Phase | None:
        """The phase that this frame stands for: a wrapper of the probe, or torch's own around `step()`."""
        if self.owner is Owner.TORCH and self.name == "wrapper" and _OPTIMIZER.search(self.file):
            return Phase.OPTIMIZER
        return WRAPPERS.get(self.name) if self.owner is Owner.PROBE else None


def wrapped(frames: Sequence[Frame]) -> list[int]:
    """The frames that stand for phases, from the outermost in; what a validation calls belongs to it."""
    found = [index for index, frame in enumerate(frames) if frame.phase is not None]
    begin = next((index for index in found if frames[index].phase is Phase.VALIDATION), len(frames))
    return [index for index in found if index < begin or frames[index].phase is not Phase.FORWARD]


def in_closure(frames: Sequence[Frame], of_libraries: bool = False) -> bool:
    """Whether an optimizer of torch's, from whose wrapper on these frames are, has called the user's code.

    Or, `of_libraries`, that of a trainer, which has its callbacks run and clips gradients in there.
    """
    if frames[0].phase is not Phase.OPTIMIZER:
        return False
    calling = (
        index
        for index, frame in enumerate(frames)
        if frame.owner is Owner.USER
        or (of_libraries and frame.owner is Owner.LIBRARY and not frame.is_standard)
    )
    return any(_OPTIMIZERS.search(frame.file) for frame in frames[1 : next(calling, 0)])


def called_by_optimizer(frames: Sequence[Frame]) -> bool:
    """Whether a stack that no phase is around is in a closure, such as a trainer's with its callbacks."""
    phases = wrapped(frames)
    return bool(phases) and frames[phases[-1]].phase is Phase.OPTIMIZER


def callback_in(frames: Sequence[Frame]) -> int:
    """The user's frame that a trainer calls as one of its callbacks; -1 where there is none."""
    called = False
    for index, frame in enumerate(frames):
        called = called or (frame.owner is Owner.LIBRARY and frame.name in _CALLBACKS)
        if called and frame.owner is Owner.USER:
            return index
    return -1


@lru_cache(maxsize=65536)
def parse(text: str) -> Frame | None:
    """A frame written as `function (file:line)`, or None."""
    match = _FRAME.match(text)
    if match is None:
        return None
    return Frame(match["function"], match["file"], int(match["line"] or 0), _owner(match["file"]))


def _owner(file: str) -> Owner:
    if _PROBE.search(file):
        return Owner.PROBE
    if _TORCH.search(file):
        return Owner.TORCH
    # installed first: site-packages lies below lib/python3.x, and a user's editable package below neither
    return Owner.LIBRARY if _INSTALLED.search(file) or _STANDARD.search(file) else Owner.USER

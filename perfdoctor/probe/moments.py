"""The moments of training at which others are called: each is a list of functions, called in their order.

Whoever reaches a moment loops over its list itself, since one call more per batch or step would be felt.
"""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Protocol

from .recorder import Recorder
from .wrapping import Args, Kwargs


class StepViewer(Protocol):
    """What sees the calls of modules in sampled steps; `call` is the same object at both ends of one."""

    called: Callable[[Any, Args, Kwargs], None]  # one begins: the call, its arguments, the module first
    returned: Callable[[Any, Any], None]  # it has ended, its `ns` is known: the call, its result
    ended: Callable[[int, float], None]  # the step: its number among them, its seconds


class Moments:
    """The moments of one process."""

    def __init__(self) -> None:
        self.device: List[Callable[[Any], None]] = []  # a device trains
        self.model: List[Callable[[Any, int], None]] = []  # a model is called first; with its size
        self.sampled_call: List[Callable[[Args, Kwargs], None]] = []  # of a model that trains
        self.sampled_module: List[Callable[[Any], None]] = []  # any is called, in the same steps
        self.sampled_steps: List[StepViewer] = []  # whole calls of modules, in the same steps
        # A model was called without gradients or in eval mode: its arguments, itself first, and nanoseconds.
        self.evaluated: List[Callable[[Args, Kwargs, int], None]] = []  # nearly always none
        # The same, but for calls that are given what has the shapes of what the two calls before were given.
        self.varied: List[Callable[[Args, Kwargs, int], None]] = []
        self.followed: List[Callable[[Args, Kwargs], None]] = []  # a model that is followed trained
        self.optimizer: List[Callable[[Any, int], None]] = []  # an optimizer steps first; with its number
        self.fetcher: List[Callable[[int, int, Any], None]] = []  # one was made, for a loader in an epoch
        self.batch: List[Callable[[int, Any], None]] = []  # a loader, by its number, delivered one of a few
        self.batches = 0  # delivered by all loaders
        self.update: List[Callable[[Recorder, int], None]] = []  # an optimizer, by its number, closed a row
        # After an update, with the question of autograd's task: the windows, which nearly always do nothing.
        self.border: Optional[Callable[[Recorder, int, Callable[[], int]], None]] = None
        # True: a model that trained is called in eval mode, or one is traced. False: without gradients.
        self.evaluating: List[Callable[[bool], None]] = []  # nearly always none
        # The training thread copied a tensor of the host to a device: the tensor, the copy, nanoseconds.
        self.copied: List[Callable[[Any, Any, int], None]] = []  # nearly always none
        # `autograd.grad` derived by data while training: its arguments, its result, nanoseconds.
        self.derived: List[Callable[[Args, Kwargs, Any, int], None]] = []  # nearly always none
        self.nested_backward: List[Callable[[], None]] = []  # one begins inside another
        self.process_group: List[Callable[[], None]] = []  # the process has its default group
        self.ddp: List[Callable[[Any], None]] = []  # a DistributedDataParallel was constructed
        self.second: List[Callable[[], None]] = []  # about once a second, and at the end

"""Events of how the script trains: what its steps do besides, or do in vain."""

from __future__ import annotations

from typing import Any

from . import Event, Line, Signed


class EvalEvent(Event, name="eval"):
    """Running totals of passes in eval mode."""

    calls: int
    grad_calls: int  # of them, those that recorded gradients
    seconds: float
    grad_seconds: float
    at: Line | None  # of the first one that recorded gradients
    lines: list[Line]  # that called the first one, innermost first


class RepeatedPrefixesEvent(Event, name="prefixes"):
    """Running totals of calls without a loss whose input is that of the call before and one place more."""

    runs: int  # of such calls in a row
    calls: int
    seconds: float  # on the host
    left_s: float  # of them, so much would calls take that get the new place only
    longest: int  # places
    generates: bool  # transformers' generate makes the calls
    lines: list[Line]  # that made the first run's calls, innermost first
    by_shapes: int = 0  # of the runs, those on a device, whose inputs nobody compared


class ZeroGradEvent(Event, name="zeroing"):
    """Running totals of calls that fill gradients with zeros."""

    calls: int
    seconds: float
    at: Line | None


class GradientClearingEvent(Event, name="clearing"):
    """Running counts of whether an optimizer's gradients were cleared between two of its updates."""

    optimizer: int
    kept: int
    cleared: int
    by_value: bool  # a gradient cleared behind torch's back would have shown
    lines: list[Line]  # of a backward and of an update


class UnusedGradientsEvent(Event, name="orphans"):
    """Parameters that a backward reached and that no optimizer has, or moves."""

    tensors: int
    elements: int
    of_elements: int  # elements of all parameters in the graph
    nodes: int  # of the graph
    needless: int  # nodes that no other gradient needs
    at_rest: int = 0  # elements that an optimizer has, at a learning rate of zero
    weights: int = 0  # elements of all parameters in the graph, without tables that rows are looked up in
    apart: int = 0  # of these, those that only needless nodes compute with


class UnusedModuleEvent(Event, name="orphans_called"):
    """A module that has just the parameters of the last such sample was called in a step after it."""

    elements: int  # of those parameters
    at: Line | None
    built: Line | None = None  # where the module was constructed


class RepeatedBackwardEvent(Event, name="repeated_backward"):
    """Two backwards of one step: how much of the second one's graph the first had passed already."""

    nodes: int  # of the second graph, without those that add to parameters
    shared: int  # of them, those in both
    at: Line | None  # of the second backward


class RepeatedPassEvent(Event, name="repeated_pass"):
    """Two backwards of one step from the same loss: one computes nothing that the other does not."""

    seconds: float  # of that one, on the host
    other_s: float  # of the other
    adds: bool  # that one is no call of `autograd.grad`: it adds to the gradients of parameters
    other_adds: bool
    at: Line | None  # of that one
    other_at: Line | None


class SeparateDerivativesEvent(Event, name="derivatives"):
    """Calls of `autograd.grad` by data between two backwards, and what one call an output would save."""

    calls: int
    again: int  # of them, those of an output that another one derives, by other inputs
    seconds: float  # all calls, on the host
    again_s: float  # of them, what goes with one call for each output
    backward_s: float  # the backward after them, on the host
    again_nodes: int  # of its graph, about so many go
    lines: list[Line]  # that ask for those of one output


class DiscardedGradientsEvent(Event, name="discarded"):
    """One look at every backward for a few rounds of the optimizers, and the line that works in vain most."""

    backwards: int  # of whole rounds
    seconds: float  # that they took
    of_line: int  # of them, those on the line below whose gradients are in part thrown away
    line_s: float
    needless_s: float  # in operations that lead to nothing but such gradients
    elements: int  # of the parameters whose gradients are thrown away
    name: str | None  # of the script's, that holds a tensor to cut the graph at
    at: Line | None  # of the backward
    held_at: Line | None  # where the frame is that has the name
    asked: bool | None = None  # for the gradient of a tensor of the script's alone, whose name this is


class RetainedGraphsEvent(Event, name="retained"):
    """More graphs of past steps are alive than ever."""

    graphs: int
    rows: int  # between the oldest one's step and now
    name: str | None  # that holds one
    at: Line | None


class GcPausesEvent(Event, name="pauses"):
    """Running totals of the garbage collector in the thread that trains."""

    count: int
    seconds: float
    full: int
    full_seconds: float
    longest_s: float
    at: Line | None  # below which most of the full collections fell
    at_seconds: float


class DebugModeEvent(Event, name="debug"):
    """How often a mode for finding errors was on."""

    mode: str  # anomaly | deterministic | profiler | sync | blocking
    looks: int
    seen: int
    at: Line | None  # that turned it on


class AnomalyEvent(Event, name="anomaly"):
    """What anomaly detection does to one graph."""

    nodes: int
    frames: int  # in tracebacks that are kept
    gradients: int  # that are searched for NaN
    frame_s: float  # of one each
    gradient_s: float


class ModuleCallsEvent(Event, name="calls"):
    """All calls of modules inside one sampled step."""

    look: int | None  # sampled steps are numbered from 1
    seconds: float
    calls: int
    autocast: str | None
    wide_inputs: bool  # a module was given double precision
    synced: int  # forwards of DistributedDataParallel whose gradients are exchanged
    unsynced: int
    biased: int  # convolutions with a bias before a batch normalisation
    biased_elements: int
    comm_ns: float | None = None  # from here on: what DistributedDataParallel counts itself
    hidden_ns: float | None = None
    backward_ns: float | None = None
    unused: int | None = None
    search_calls: int = 0
    search_s: float = 0.0


class BatchLayoutEvent(Event, name="batch_layout"):
    """Batches whose samples lie in the second dimension, time in the first, or of which that is not known."""

    dimension: int | None  # of the samples; None: nothing tells it, or not all modules tell the same
    rows: int  # the first two sizes of such a batch
    columns: int
    integers: bool  # it holds tokens, not numbers
    told_by: str | None  # the class of the first module that told, or the loader's
    of_one: bool = False  # a loader puts one item into each, and a model is given it as so many rows


PARAMETRIZATION = "ParametrizationList"  # the module of torch.nn.utils.parametrize that makes a parameter


class RepeatedCallEvent(Event, name="repeat"):
    """A module was called again with the same arguments, or keys and values, in one sampled step."""

    look: int | None
    module: str | None
    count: int
    seconds: float
    recording: bool  # gradients
    first: Line | None
    at: Line | None  # of the call that is not needed
    by_chance: bool  # they differ, as by dropout, and backward went through the first only
    lines: list[Line]  # that lead to this call alone, innermost first
    inputs: int  # different ones that were given again, each `count / inputs` times; 0: not known
    walked: bool  # backward went through all of these calls, those that are needed and those that are not
    projections: bool  # of attention that was given the same keys and values, and another query


class BiasedLayerEvent(Event, name="biased"):
    """A convolution has a bias that the batch normalisation behind it takes out again."""

    path: str
    elements: int
    at: Line | None


class IgnoredTargetsEvent(Event, name="ignored_targets"):
    """Running totals of the backwards to one head whose loss was looked at: targets that it ignores."""

    looks: int
    targets: int  # that were read
    ignored: int  # of those
    classes: int
    seconds: float  # of backward, from the loss to behind the product that gave its scores
    head: int = 0  # its number in the process
    at_head: int = 0  # of the backwards counted, those that come to it
    counted: int = 0  # all backwards of some updates; 0: not known
    ignore_index: Signed | None = None  # of the last loss; None: not known
    rows: int = 0  # positions whose scores the product gave; 0: not known
    width: int = 0  # of the product's input; 0: not known


class WindowEvent(Event, name="window"):
    """A profiler window is over, or did not come about."""

    index: int | None
    kind: str | None  # plain | shapes | stacks
    file: str | None
    first_step: int
    steps: int
    begin_ns: int
    end_ns: int
    annotation_ns: dict[str, Any]  # just before each step's annotation begins
    start_s: float
    stop_s: float
    export_s: float
    bytes: int
    activities: list[str]
    outcome: str  # ok | yielded | abandoned | failed | put_off, which may come about later
    because: str | None
    warm_up: int | None  # steps before those that count; None: one, by an older probe
    calls: int | None  # of Python's and C's functions in the step before: counted for one with stacks
    count_s: float  # what counting them cost

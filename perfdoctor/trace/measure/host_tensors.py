"""Finds the operator that creates a tensor on the host, just before another copies it to the device."""

from __future__ import annotations

import ast
import math
import re

import numpy as np

from perfdoctor.trace.measure.by_thread import ByThread
from perfdoctor.trace.measure.intervals import Spans
from perfdoctor.trace.measure.operators import recorded_inputs
from perfdoctor.trace.parse.columns import UNKNOWN, Inputs, Ints, Trace

# Operators whose result depends on nothing but its size, a constant and a random generator.
FACTORY = re.compile(
    r"aten::((zeros|ones|full|rand|randn|randint)(_like)?|(normal|uniform|bernoulli|random|exponential)_)"
)
# What may stand between creating a tensor and copying it: it changes no value.
VIEW = re.compile(
    r"(aten::)?(view|_unsafe_view|reshape|_reshape_alias|unsqueeze|squeeze|expand|expand_as|as_strided|"
    r"permute|transpose|t|select|slice|detach|alias|is_pinned|pin_memory|empty|requires_grad_)"
)
BYTES_PER_NS = 50.0  # that no core writes: what was created in less time than that takes is smaller
LEAST_BYTES = 1 << 16  # of a tensor of unknown shape: any operator takes long enough to create a smaller one
NEAR = 24  # operators looked at before a copy: a factory and a view call a few others each


class HostTensors:
    """Finds who created a tensor; `launched` numbers the operators around calls that launched something."""

    def __init__(self, trace: Trace, ops: ByThread, launched: Ints, loader: Spans) -> None:
        self.trace = trace
        self.ops = ops
        self.launched = np.zeros(len(trace.ops), bool)
        self.launched[launched] = True
        self.loader = loader
        self.factory = np.array([FACTORY.fullmatch(name) is not None for name in trace.names], bool)
        self.view = np.array([VIEW.fullmatch(name) is not None for name in trace.names], bool)

    def creator(self, copy: int, size_bytes: int) -> int:
        """The number of the operator that created what the operator `copy` takes, else UNKNOWN.

        `size_bytes`: what is copied, or UNKNOWN.
        """
        ops = self.trace.ops
        if copy == UNKNOWN or not self.factory.any():
            return UNKNOWN
        before = self.ops.before(int(ops.thread[copy]), int(ops.begin_ns[copy]), NEAR)
        factories = before[self.factory[ops.name[before]]]
        if not len(factories):
            return UNKNOWN
        creator = self._outermost(before, int(factories[-1]))
        begin_ns, end_ns = int(ops.begin_ns[creator]), int(ops.begin_ns[creator] + ops.duration_ns[creator])
        later = before[ops.begin_ns[before] >= end_ns]
        usable = (
            bool(self.factory[ops.name[creator]])
            and bool(self.view[ops.name[later]].all())
            and not self.launched[creator]
            and not self.loader.within(begin_ns, end_ns)
            and self._fits(creator, copy, size_bytes)
        )
        return creator if usable else UNKNOWN

    def _outermost(self, rows: Ints, inner: int) -> int:
        """The longest of `rows` around `inner`: aten::randn calls aten::normal_."""
        ops, end = self.trace.ops, self.trace.ops.ends_ns(rows)
        inner_end = ops.begin_ns[inner] + ops.duration_ns[inner]
        around = rows[(ops.begin_ns[rows] <= ops.begin_ns[inner]) & (end >= inner_end)]
        return int(around[ops.duration_ns[around].argmax()])

    def _fits(self, creator: int, copy: int, size_bytes: int) -> bool:
        """Whether as many elements are created as are copied.

        In a trace without shapes, whether it took long enough to create as many bytes.
        """
        if not len(self.trace.inputs):
            return LEAST_BYTES <= size_bytes <= BYTES_PER_NS * int(self.trace.ops.duration_ns[creator])
        source, target = recorded_inputs(self.trace, np.array([creator, copy]))
        if source is None or target is None or not target.shapes:
            return False
        return _size(source) == math.prod(target.shapes[0])


def _size(inputs: Inputs) -> int | None:
    """How many elements a factory creates: of a recorded size, "[64, 128]", or of the tensor it is like."""
    if inputs.shapes and inputs.shapes[0]:
        return math.prod(inputs.shapes[0])
    try:
        value = ast.literal_eval(inputs.values[0]) if inputs.values else None
    except (ValueError, SyntaxError):
        return None
    return math.prod(value) if isinstance(value, list) and all(isinstance(n, int) for n in value) else None

"""Which operator made, on the host and just before, the tensor that another then copies to the device."""

from __future__ import annotations

import ast
import math
import re

import numpy as np

from perfdoctor.trace.columns import UNKNOWN, Inputs, Ints, Trace
from perfdoctor.trace.intervals import Spans
from perfdoctor.trace.operators import details
from perfdoctor.trace.order import Order

# Operators whose result depends on nothing but its size, a constant and a random generator.
FACTORY = re.compile(
    r"aten::((zeros|ones|full|rand|randn|randint)(_like)?|(normal|uniform|bernoulli|random|exponential)_)"
)
# What may stand between making a tensor and copying it: it changes no value.
VIEW = re.compile(
    r"(aten::)?(view|_unsafe_view|reshape|_reshape_alias|unsqueeze|squeeze|expand|expand_as|as_strided|"
    r"permute|transpose|t|select|slice|detach|alias|is_pinned|pin_memory|empty|requires_grad_)"
)
NEAR = 24  # operators looked at before a copy: a factory and a view call a few others each


class Makers:
    """Finds them; `launched` holds the operators around calls that launched something."""

    def __init__(self, trace: Trace, order: Order, launched: Ints, loader: Spans) -> None:
        self.trace = trace
        self.order = order
        self.launched = set(launched.tolist())
        self.loader = loader
        self.factory = np.array([FACTORY.fullmatch(name) is not None for name in trace.names], bool)
        self.view = np.array([VIEW.fullmatch(name) is not None for name in trace.names], bool)

    def of(self, copy: int) -> int:
        """The number of the operator that made what the operator `copy` takes, else UNKNOWN."""
        ops = self.trace.ops
        if copy == UNKNOWN or not self.factory.any():
            return UNKNOWN
        before = self.order.before(int(ops.thread[copy]), int(ops.begin_ns[copy]), NEAR)
        made = before[self.factory[ops.name[before]]]
        if not len(made):
            return UNKNOWN
        maker = self._outermost(before, int(made[-1]))
        begin_ns, end_ns = int(ops.begin_ns[maker]), int(ops.begin_ns[maker] + ops.duration_ns[maker])
        later = before[ops.begin_ns[before] >= end_ns]
        usable = (
            bool(self.factory[ops.name[maker]])
            and bool(self.view[ops.name[later]].all())
            and maker not in self.launched
            and not self.loader.within(begin_ns, end_ns)
            and self._fits(maker, copy)
        )
        return maker if usable else UNKNOWN

    def _outermost(self, rows: Ints, inner: int) -> int:
        """The longest of `rows` around `inner`: aten::randn calls aten::normal_."""
        ops, end = self.trace.ops, self.order.end(rows)
        inner_end = ops.begin_ns[inner] + ops.duration_ns[inner]
        around = rows[(ops.begin_ns[rows] <= ops.begin_ns[inner]) & (end >= inner_end)]
        return int(around[ops.duration_ns[around].argmax()])

    def _fits(self, maker: int, copy: int) -> bool:
        """Whether as many elements are made as are copied. Without recorded shapes, that is not known."""
        rows = details(self.trace, np.array([maker, copy]))
        if (rows == UNKNOWN).any() or (self.trace.details.inputs[rows] == UNKNOWN).any():
            return False
        made, copied = (self.trace.inputs[number] for number in self.trace.details.inputs[rows].tolist())
        return bool(copied.shapes) and _size(made) == math.prod(copied.shapes[0])


def _size(inputs: Inputs) -> int | None:
    """How many elements a factory makes: of a recorded size, "[64, 128]", or of the tensor it is like."""
    if inputs.shapes and inputs.shapes[0]:
        return math.prod(inputs.shapes[0])
    try:
        value = ast.literal_eval(inputs.values[0]) if inputs.values else None
    except (ValueError, SyntaxError):
        return None
    return math.prod(value) if isinstance(value, list) and all(isinstance(n, int) for n in value) else None

"""What threads of the host do in a trace without a device: one may load while another computes."""

from __future__ import annotations

import numpy as np

from perfdoctor.trace.measure.annotations import Annotations
from perfdoctor.trace.measure.intervals import Spans, covered, either
from perfdoctor.trace.parse.columns import ALL, Trace


def computing_and_loading(trace: Trace, annotated: Annotations, loader: Spans) -> tuple[Spans, Spans]:
    """When any thread was inside an operator that is no part of its own loading; and when one was inside a
    DataLoader, `loader`, and none computed: what is loaded beside computing keeps nobody waiting.
    """
    rows = ALL if annotated.ops is None else annotated.ops
    of_ops = trace.ops.thread[rows]
    loading = annotated.dataloader()
    of_loading = annotated.events.thread[loading]
    if not len(of_loading) or (of_ops == of_loading[0]).all():
        return covered(trace.ops, rows).minus(loader), loader
    numbers = np.arange(len(trace.ops), dtype=np.int32)[rows]
    computing = covered(trace.ops, numbers[~np.isin(of_ops, of_loading)])
    for thread in np.unique(of_loading).tolist():
        inside = covered(trace.ops, numbers[of_ops == thread])
        own = inside.minus(annotated.spans(loading[of_loading == thread]))
        computing = either(computing, own)
    return computing, loader.minus(computing)

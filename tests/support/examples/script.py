"""Facts of what the script constructed."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from perfdoctor.facts.device.held_clock import HeldClockFacts
from perfdoctor.facts.device.timed_copies import TimedCopyFacts
from perfdoctor.facts.script.model_and_optimizers import ModelFacts, OptimizerFacts
from perfdoctor.facts.script.module_calls import BiasFacts, PrecisionFacts, RepeatedCallFacts
from perfdoctor.facts.script.parallel import ParallelFacts
from perfdoctor.facts.script.skipped_updates import SkippedUpdateFacts
from perfdoctor.facts.steps.batch_room import BatchRoom
from perfdoctor.facts.steps.batch_size_cost import BatchSizeFacts
from perfdoctor.model.measured import (
    GpuFacts,
    Location,
)
from tests.support import script_facts

MS = st.floats(0, 1e4)
SHARE = st.floats(0, 1)
CODE = st.sampled_from(["total += loss", "losses.append(loss)", "history.push()", "for x in (", ""])
AT = Location("train.py", 9, "main", "work()")
HEALTHY = {
    OptimizerFacts: script_facts.optimizers(script_facts.optimizer(way="fused")),
    ModelFacts: script_facts.model(),
    RepeatedCallFacts: script_facts.repeats(0.0),
    BiasFacts: script_facts.biases(0.01),
    PrecisionFacts: script_facts.precision("bfloat16"),
    SkippedUpdateFacts: SkippedUpdateFacts(4000, 2),
    ParallelFacts: script_facts.parallel(),
    BatchSizeFacts: script_facts.sizes(),
    BatchRoom: BatchRoom(2 * 10**9, 16 * 10**9),
    GpuFacts: script_facts.gpu(),
    TimedCopyFacts: TimedCopyFacts(0.02, 4e6, (), pinned_by_hand=False),
    HeldClockFacts: HeldClockFacts("Tesla V100", 60, 0.0, 0.9, 1400, 1600, 0.95, 70, 300),
}


@st.composite
def odd(draw):
    """Facts of what the script built."""
    size = st.integers(1, 10**12)
    rooms = st.builds(
        lambda used, more, fixed: BatchRoom(used, used + more, int(0.9 * fixed * used)), size, size, SHARE
    )
    count = st.integers(0, 10**9)
    some = st.floats(0, 99)
    updates = draw(st.integers(1, 10**9))
    return {
        OptimizerFacts: script_facts.optimizers(
            *(
                script_facts.optimizer(
                    draw(st.sampled_from(["SGD", "Adam", "LBFGS"])),
                    draw(st.sampled_from(["fused", "foreach", "for-loop", None])),
                    tensors=draw(count),
                    elements=draw(count),
                    device=draw(st.sampled_from(["cpu", "cuda"])),
                )
                for _ in range(draw(st.integers(1, 3)))
            )
        ),
        ModelFacts: script_facts.model(draw(SHARE), draw(SHARE), parameters=draw(count)),
        RepeatedCallFacts: script_facts.repeats(
            draw(SHARE),
            draw(SHARE),
            draw(st.booleans()),
            times=draw(st.floats(1, 1e6)),
            walked=draw(st.booleans()),
            projections=draw(st.booleans()),
        ),
        BiasFacts: script_facts.biases(draw(MS), draw(st.integers(1, 9))),
        PrecisionFacts: script_facts.precision(
            draw(st.none() | st.just("float16")), None, draw(st.booleans())
        ),
        SkippedUpdateFacts: SkippedUpdateFacts(updates, draw(st.integers(1, updates))),
        ParallelFacts: script_facts.parallel(
            wrapper=draw(st.sampled_from(["DistributedDataParallel", "DataParallel", None])),
            devices=draw(st.integers(0, 16)),
            device_ids=draw(st.integers(0, 16)),
            device=draw(st.sampled_from(["cpu", "cuda"])),
            world=draw(st.integers(1, 512)),
            synced=draw(some),
            exposed_s=draw(st.none() | some),
            find_unused=draw(st.booleans()),
            search_s=draw(some),
        ),
        BatchSizeFacts: replace(
            script_facts.sizes(draw(SHARE), draw(some)),
            small_for_device=draw(st.sampled_from([None, True, False])),
        ),
        BatchRoom: draw(rooms),
        TimedCopyFacts: TimedCopyFacts(
            draw(SHARE), draw(st.floats(0, 1e12)), draw(st.sampled_from([(), (AT,)])), draw(st.booleans())
        ),
        HeldClockFacts: HeldClockFacts(
            "", 99, draw(SHARE), draw(SHARE), draw(st.floats(1, 1e4)), draw(st.floats(1, 1e4)), draw(SHARE)
        ),
        GpuFacts: script_facts.gpu(draw(st.none() | SHARE)),
    }

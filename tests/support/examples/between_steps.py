"""Facts of what goes on between the steps."""

from __future__ import annotations

from hypothesis import strategies as st

from perfdoctor.facts.host.between_steps import BetweenStepsFacts
from perfdoctor.facts.host.debug_modes import DebugModeFacts
from perfdoctor.facts.host.gathered_outputs import GatheredOutputs
from perfdoctor.facts.host.gc_pauses import GcPauseFacts
from perfdoctor.facts.host.item_loops import ItemLoop, ItemLoopFacts
from perfdoctor.facts.host.tensor_loops import TensorLoopFacts
from perfdoctor.facts.script.discarded_gradients import DiscardedGradientFacts
from perfdoctor.facts.script.gradient_clearing import GradientClearingFacts, GradientZeroingFacts
from perfdoctor.facts.script.retained_graph import RetainedGraphFacts
from perfdoctor.facts.script.unused_gradients import UnusedGradientFacts
from perfdoctor.facts.script.validation import ValidationFacts
from perfdoctor.model.change import Estimate
from perfdoctor.model.measured import (
    Location,
)
from tests.support import facts, host_facts

MS = st.floats(0, 1e4)
SHARE = st.floats(0, 1)
CODE = st.sampled_from(["total += loss", "losses.append(loss)", "history.push()", "for x in (", ""])
AT = Location("train.py", 9, "main", "work()")
HEALTHY = {
    GcPauseFacts: host_facts.pauses(young=0.05, full=0.1),
    DebugModeFacts: host_facts.debug(deterministic=None),
    GradientClearingFacts: host_facts.clearing(kept=1, cleared=20),
    GradientZeroingFacts: host_facts.zeroing(0.1),
    RetainedGraphFacts: host_facts.retained(graphs=4, steps=20),
    ValidationFacts: host_facts.validation(seconds=1.2),
    BetweenStepsFacts: host_facts.between(0.01),
    GatheredOutputs: host_facts.gathered(0.01),
    TensorLoopFacts: TensorLoopFacts((facts.line(0.01, 30),), 0.01),
    ItemLoopFacts: ItemLoopFacts((ItemLoop(AT, 20, 0.01, 0.01, 9, ("Linear",), Estimate(0, 0.1, 0.2)),)),
    DiscardedGradientFacts: DiscardedGradientFacts(9, 0.02, 0.03, 100, None, None, None, False),
    UnusedGradientFacts: UnusedGradientFacts(1, 100, 0.01, 0.0, None),
}


@st.composite
def odd(draw):
    """Facts of what goes on between the steps."""
    often = st.floats(0.001, 1e6)
    names = draw(st.sets(st.sampled_from(["anomaly", "blocking", "deterministic", "profiler", "sync"])))
    checks = [facts.line(draw(SHARE), 3) for _ in range(draw(st.integers(0, 3)))]
    return {
        GcPauseFacts: host_facts.pauses(draw(MS), draw(MS), draw(often), draw(st.none() | st.just(AT))),
        DebugModeFacts: host_facts.debug(*checks, busy=draw(st.none() | SHARE), **dict.fromkeys(names, AT)),
        GradientClearingFacts: host_facts.clearing(draw(st.integers(0, 99)), draw(st.integers(0, 1))),
        GradientZeroingFacts: host_facts.zeroing(draw(MS)),
        BetweenStepsFacts: host_facts.between(draw(SHARE), draw(CODE), draw(st.integers(30, 31)), 99),
        GatheredOutputs: host_facts.gathered(
            draw(SHARE),
            *draw(st.sets(st.sampled_from(["hidden_states", "attentions"]))),
            reduces=draw(st.booleans()),
        ),
        TensorLoopFacts: TensorLoopFacts((facts.line(draw(SHARE), 30, text=draw(CODE)),), draw(SHARE)),
        ItemLoopFacts: ItemLoopFacts(
            (
                ItemLoop(
                    AT,
                    draw(st.integers(16, 10**9)),
                    draw(st.floats(1e-9, 1)),
                    draw(SHARE),
                    draw(st.integers(0, 10**6)),
                    ("Linear",),
                    Estimate(*sorted(draw(st.tuples(SHARE, SHARE, SHARE)))),
                ),
            ),
            draw(st.none() | SHARE),
        ),
        DiscardedGradientFacts: DiscardedGradientFacts(
            9,
            draw(SHARE),
            draw(SHARE),
            900,
            draw(st.none() | CODE),
            draw(st.none() | st.just(AT)),
            None,
            False,
        ),
        UnusedGradientFacts: UnusedGradientFacts(
            9, 900, draw(SHARE), draw(SHARE), draw(st.none() | st.just(AT))
        ),
        RetainedGraphFacts: host_facts.retained(
            draw(st.integers(0, 64)),
            draw(often),
            draw(st.none() | st.floats(-1e9, 1e9)),
            draw(SHARE),
            draw(CODE),
        ),
        ValidationFacts: host_facts.validation(
            draw(MS), draw(st.integers(0, 9999)), draw(st.floats(1, 1e6)), draw(MS), text=draw(CODE)
        ),
    }

"""Facts of how a step goes backward."""

from __future__ import annotations

from hypothesis import strategies as st

from perfdoctor.facts.script.accumulation import AccumulationFacts
from perfdoctor.facts.script.ignored_targets import IgnoredTargetFacts
from perfdoctor.facts.script.repeated_backward import RepeatedBackwardFacts, RepeatedPass
from perfdoctor.facts.script.separate_derivatives import SeparateDerivativesFacts
from perfdoctor.model.measured import Location

AT = Location("train.py", 9, "main", "loss.backward(retain_graph=True)")
HEALTHY = {
    RepeatedBackwardFacts: RepeatedBackwardFacts(0.01, 3, AT),
    IgnoredTargetFacts: IgnoredTargetFacts(0.1, 0.002, 1_000, (AT,)),
    AccumulationFacts: AccumulationFacts(4, 64, (AT,)),
    SeparateDerivativesFacts: SeparateDerivativesFacts(2, 1, 0.02, 0.01, True, (AT,)),
}


@st.composite
def odd(draw):
    """Facts of any run, however odd."""
    shared, at = draw(st.floats(0, 1)), draw(st.none() | st.just(AT))
    ignored = IgnoredTargetFacts(
        draw(st.floats(0, 1)),
        draw(st.floats(0, 1e6)),
        draw(st.integers(1, 10**9)),
        (at,) if at else (),
        draw(st.none() | st.integers(-100, 10)),
        draw(st.floats(0, 99)),
        draw(st.floats(0, 1e9)),
        draw(st.integers(0, 10**6)),
    )
    same = RepeatedPass(
        draw(st.floats(0, 99)), draw(st.floats(0, 99)), draw(st.booleans()), draw(st.booleans()), 3, at
    )
    repeats = RepeatedBackwardFacts(
        shared, draw(st.integers(1, 9)), at, draw(st.floats(1, 99)), draw(st.none() | st.just(same))
    )
    return {
        RepeatedBackwardFacts: repeats,
        IgnoredTargetFacts: ignored,
        AccumulationFacts: AccumulationFacts(draw(st.integers(2, 99)), draw(st.integers(1, 10**6)), (AT,)),
        SeparateDerivativesFacts: SeparateDerivativesFacts(
            draw(st.floats(2, 99)),
            draw(st.floats(1, 98)),
            draw(st.floats(0, 1)),
            draw(st.floats(0, 1)),
            draw(st.booleans()),
            (at,) if at else (),
        ),
    }

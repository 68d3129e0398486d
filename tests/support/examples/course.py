"""Facts of the course of a run."""

from __future__ import annotations

from hypothesis import strategies as st

from perfdoctor.facts.host.slowing_down import Cause, SlowingFacts
from perfdoctor.model.measured import Phase
from tests.support import host_facts

SHARE = st.floats(0, 1)
HEALTHY = {
    SlowingFacts: host_facts.slowing(slower=0.01),
}


@st.composite
def odd(draw):
    """Facts of the course of any run."""
    return {
        SlowingFacts: host_facts.slowing(
            draw(st.sampled_from(Cause)),
            draw(SHARE),
            draw(st.sampled_from(Phase)),
            draw(st.none() | st.floats(-1e9, 1e9)),
            draw(SHARE),
        ),
    }

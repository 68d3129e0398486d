"""Facts of the course of a run."""

from __future__ import annotations

from hypothesis import strategies as st

from perfdoctor.facts.host.slowing_down import Cause, SlowingFacts
from perfdoctor.facts.script.startup import StartUpFacts
from perfdoctor.facts.steps.periodic_stalls import PeriodicStalls
from perfdoctor.model.measured import Phase
from tests.support import host_facts

SHARE = st.floats(0, 1)
HEALTHY = {
    PeriodicStalls: host_facts.stalling(0.01),
    SlowingFacts: host_facts.slowing(slower=0.01),
    StartUpFacts: host_facts.starting(seconds=12.0, line=4.0),
}


@st.composite
def odd(draw):
    """Facts of the course of any run."""
    return {
        PeriodicStalls: host_facts.stalling(
            draw(SHARE),
            draw(st.none() | st.integers(3, 10**6)),
            draw(st.sampled_from(Phase)),
            draw(st.none() | st.just("")),
            draw(st.sampled_from(["compute", None])),
        ),
        StartUpFacts: host_facts.starting(
            draw(st.floats(0, 1e5)),
            draw(SHARE),
            draw(st.floats(0, 1e5)),
            draw(st.sampled_from(["script", "import", "model", "batch", "compile", "?"])),
            draw(st.sampled_from(["prepare(texts)", ""])),
        ),
        SlowingFacts: host_facts.slowing(
            draw(st.sampled_from(Cause)),
            draw(SHARE),
            draw(st.sampled_from(Phase)),
            draw(st.none() | st.floats(-1e9, 1e9)),
            draw(SHARE),
        ),
    }

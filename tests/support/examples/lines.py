"""Facts of lines that take much of a step."""

from __future__ import annotations

from hypothesis import strategies as st

from perfdoctor.facts.host.suspects import SuspectFacts
from perfdoctor.model.coverage import Cover, Covered
from perfdoctor.model.lines import StepLines, WaitPart
from perfdoctor.model.measured import Phase
from tests.support.line_facts import lines, suspect

HEALTHY = {
    StepLines: lines((9, Phase.BACKWARD, 5.0), (8, Phase.FORWARD, 3.0)),
    SuspectFacts: SuspectFacts((suspect(0.04, Phase.DATA_WAIT, 12), suspect(0.02, Phase.OTHER, 30))),
    Covered: Covered(),
}


@st.composite
def odd(draw):
    """Facts of any run, however odd."""
    share = st.floats(0, 1)
    phase = st.sampled_from(list(Phase))
    found = [
        suspect(
            draw(share),
            draw(phase),
            *draw(st.lists(st.integers(1, 3), min_size=1, max_size=3)),
            wait=draw(st.none() | st.sampled_from(list(WaitPart))),
            kind=draw(st.sampled_from([None, "rest", "data", "compute"])),
        )
        for _ in range(draw(st.integers(0, 4)))
    ]
    cover = Cover(draw(share), draw(st.none() | phase), frozenset(draw(st.sets(st.just(("train.py", 2))))))
    return {
        StepLines: lines((1, Phase.OTHER, draw(st.floats(0, 1e4)))),
        SuspectFacts: SuspectFacts(tuple(found), draw(share)),
        Covered: Covered((cover,)),
    }

"""Facts of distances of all pairs."""

from __future__ import annotations

from hypothesis import strategies as st

from perfdoctor.facts.script.broadcast_distances import BroadcastDistanceFacts, BroadcastDistanceLine
from perfdoctor.model.change import Estimate
from perfdoctor.model.measured import Location

AT = Location("train.py", 9, "main", "near = (x[:, None] - y[None]).norm(dim=-1)")
HEALTHY = {
    BroadcastDistanceFacts: BroadcastDistanceFacts(
        Estimate(0.0, 0.01, 0.02), (BroadcastDistanceLine(AT, 0.01, 4096, 64, "distance"),), 3
    )
}


@st.composite
def odd(draw):
    """Facts of any run, however odd."""
    low, likely, high = sorted(draw(st.tuples(*[st.floats(0, 1)] * 3)))
    line = st.builds(
        BroadcastDistanceLine,
        at=st.just(AT),
        share=st.floats(0, 1),
        pairs=st.integers(1, 10**12),
        width=st.integers(0, 10**9),
        kind=st.sampled_from(["cosine", "product", "distance", "absolute", ""]),
    )
    lines = draw(st.lists(line, max_size=4))
    return {
        BroadcastDistanceFacts: BroadcastDistanceFacts(
            Estimate(low, likely, high), tuple(lines), draw(st.integers(2, 8))
        )
    }

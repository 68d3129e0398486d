"""Facts of rows that come several times in one batch."""

from __future__ import annotations

from hypothesis import strategies as st

from perfdoctor.facts.script.repeated_rows import RepeatedRowFacts, RepeatedRowsLine
from perfdoctor.model.change import Estimate
from perfdoctor.model.measured import Location

AT = Location("train.py", 9, "forward", "person = self.encoder(profiles)")
LINE = RepeatedRowsLine(AT, None, "Encoder", 0.02, 40, 8, 5, True, False, False, 40, 1_000_000)
HEALTHY = {RepeatedRowFacts: RepeatedRowFacts(Estimate(0.01, 0.02, 0.03), 0.8, (LINE,), 4)}


@st.composite
def odd(draw):
    """Facts of any run, however odd."""
    low, likely, high = sorted(draw(st.tuples(*[st.floats(0, 1)] * 3)))
    lines = [
        RepeatedRowsLine(
            at=AT,
            repeated_at=draw(st.sampled_from([None, AT])),
            module=draw(st.sampled_from(["Encoder", ""])),
            share=draw(st.floats(0, 1)),
            rows=draw(st.integers(2, 10**9)),
            distinct=draw(st.integers(1, 10**9)),
            times=draw(st.integers(0, 10**6)),
            together=draw(st.booleans()),
            by_chance=draw(st.booleans()),
            normalised=draw(st.booleans()),
            operations=draw(st.integers(0, 10**6)),
            weight_bytes=draw(st.integers(0, 10**12)),
        )
        for _ in range(draw(st.integers(0, 2)))
    ]
    facts = RepeatedRowFacts(Estimate(low, likely, high), draw(st.floats(0, 1)), tuple(lines), 3)
    return {RepeatedRowFacts: facts}

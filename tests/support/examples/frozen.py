"""Facts of frozen modules."""

from __future__ import annotations

from hypothesis import strategies as st

from perfdoctor.facts.script.frozen_features import FrozenFeatureFacts
from perfdoctor.model.change import Estimate
from perfdoctor.model.measured import Location

AT = Location("train.py", 9, "main", "features = encoder(batch)")
HEALTHY = {
    FrozenFeatureFacts: FrozenFeatureFacts(
        "Encoder", 1, 0.01, Estimate(0.8, 0.9, 1.0), 5000.0, 10.0, 512.0, True, 32.0, (AT,)
    )
}


@st.composite
def odd(draw):
    """Facts of any run, however odd."""
    low, likely, high = sorted(draw(st.tuples(*[st.floats(0, 1)] * 3)))
    return {
        FrozenFeatureFacts: FrozenFeatureFacts(
            module=draw(st.sampled_from(["Encoder", ""])),
            modules=draw(st.integers(1, 64)),
            share=draw(st.floats(0, 1)),
            again=Estimate(low, likely, high),
            different=draw(st.floats(0, 1e12)),
            passes=draw(st.floats(0, 1e9)),
            row_bytes=draw(st.floats(0, 1e12)),
            whole=draw(st.booleans()),
            step_rows=draw(st.floats(0, 1e9)),
            free_bytes=draw(st.none() | st.integers(0, 10**12)),
            at=draw(st.sampled_from([(), (AT,)])),
        )
    }

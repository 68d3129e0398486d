"""Facts of parts whose loss has a weight of zero."""

from __future__ import annotations

from hypothesis import strategies as st

from perfdoctor.facts.script.zero_weight_losses import ZeroWeightLossFacts
from perfdoctor.model.change import Estimate
from perfdoctor.model.measured import Location

AT = Location("train.py", 9, "forward", "extra = decoder(features)")
HEALTHY = {
    ZeroWeightLossFacts: ZeroWeightLossFacts("Decoder", 0.004, 0.01, Estimate(0.5, 0.6, 0.7), 2, 6, (AT,))
}


@st.composite
def odd(draw):
    """Facts of any run, however odd."""
    low, likely, high = sorted(draw(st.tuples(*[st.floats(0, 1)] * 3)))
    return {
        ZeroWeightLossFacts: ZeroWeightLossFacts(
            module=draw(st.sampled_from(["Decoder", ""])),
            share=draw(st.floats(0, 1)),
            of_called=draw(st.floats(0, 1)),
            part=Estimate(low, likely, high),
            zeros=draw(st.integers(2, 30)),
            samples=draw(st.integers(3, 30)),
            at=draw(st.sampled_from([(), (AT,)])),
        )
    }

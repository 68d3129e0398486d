"""Facts of distributions that check their arguments."""

from __future__ import annotations

from hypothesis import strategies as st

from perfdoctor.facts.host.distribution_checks import DistributionCheckFacts
from perfdoctor.model.measured import LineCost, Location

AT = Location("train.py", 9, "act", "policy = Categorical(probs)")
SHARE = st.floats(0, 1)
HEALTHY = {DistributionCheckFacts: DistributionCheckFacts((LineCost(AT, 0.02, 20),))}


@st.composite
def odd(draw):
    """Facts of any run, however odd."""
    lines = st.builds(LineCost, st.just(AT), SHARE, st.integers(1, 10**6))
    found = tuple(draw(st.lists(lines, min_size=1, max_size=3)))
    return {DistributionCheckFacts: DistributionCheckFacts(found, draw(st.none() | SHARE))}

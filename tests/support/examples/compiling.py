"""Facts of what torch.compile did."""

from __future__ import annotations

from hypothesis import strategies as st

from perfdoctor.facts.script.compiling import CompiledAgain, CompilingFacts, GraphBreak
from perfdoctor.model.measured import Location, Phase

AT = Location("train.py", 9, "forward", "self.calls += 1")
CALL = Location("train.py", 30, "main", "model = torch.compile(model)")
HEALTHY = {
    CompilingFacts: CompilingFacts(
        2, 12.0, (CompiledAgain(AT, "forward", 1, 4.0, 3.0, False, ("GLOBAL_STATE changed: grad_mode",), None, ((Phase.FORWARD, 0.01),)),),
        (GraphBreak("Failed to trace builtin operator", AT),), (CALL,), 400.0,
    )
}  # fmt: skip
PLACE = st.none() | st.sampled_from([AT, CALL, Location("train.py", 3, None, None)])
SHARE = st.floats(0, 1)
SECONDS = st.floats(0, 1e6)
WORDS = st.text(max_size=20) | st.just("tensor 'x' size mismatch at index 0")


@st.composite
def odd(draw):
    """Facts of any run, however odd."""
    again = st.builds(
        CompiledAgain, PLACE, st.none() | WORDS, st.integers(0, 10**6), SECONDS, SECONDS, st.booleans(),
        st.lists(WORDS, max_size=3).map(tuple), PLACE,
        st.lists(st.tuples(st.sampled_from(Phase), SHARE), max_size=3).map(tuple),
    )  # fmt: skip
    return {
        CompilingFacts: CompilingFacts(
            draw(st.integers(0, 10**6)),
            draw(SECONDS),
            draw(st.lists(again, max_size=3).map(tuple)),
            draw(st.lists(st.builds(GraphBreak, WORDS, PLACE), max_size=5).map(tuple)),
            (CALL,) * draw(st.integers(0, 2)),
            draw(SECONDS),
        )
    }

"""Facts of what a dataset does again for every item."""

from __future__ import annotations

from hypothesis import strategies as st

from perfdoctor.facts.data.item_repeats import ItemRepeatFacts
from perfdoctor.facts.data.item_work import How, RepeatedWorkFacts
from perfdoctor.facts.data.small_calls import Library, SmallCallFacts
from perfdoctor.facts.host.invariant_calls import InvariantCall, InvariantCallFacts
from perfdoctor.facts.host.repeated_calls import RepeatedFunction, RepeatedFunctionFacts
from perfdoctor.facts.host.repeated_reads import RepeatedRead, RepeatedReadFacts
from perfdoctor.facts.script.function_caches import SmallCache, SmallCacheFacts
from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.measured import Location
from tests.support import load_facts

LOAD = Location("/home/me/data.py", 44, "load", "@lru_cache(maxsize=64)")
HEALTHY = {
    ItemRepeatFacts: ItemRepeatFacts(32, 32),
    RepeatedWorkFacts: RepeatedWorkFacts((load_facts.repeated(0.03),)),
    SmallCallFacts: SmallCallFacts((load_facts.small(0.1),), 0.012),
    InvariantCallFacts: InvariantCallFacts(
        (InvariantCall(LOAD, "load(path)", 40, 0.02, 0.0, 10, Bottleneck.HOST),)
    ),
    RepeatedFunctionFacts: RepeatedFunctionFacts(
        (RepeatedFunction(LOAD, "load", 0.02, 10, Bottleneck.DATA, 64, 4),)
    ),
    RepeatedReadFacts: RepeatedReadFacts((RepeatedRead(LOAD, None, 1, 30, 0.02, Bottleneck.HOST),)),
    SmallCacheFacts: SmallCacheFacts((SmallCache(LOAD, 64, 1000, 800, 0.02, 0.1, 10, Bottleneck.DATA),)),
}


@st.composite
def odd(draw):
    """Facts of what a dataset does again for every item."""
    work = [
        load_facts.repeated(
            draw(st.floats(0, 1)),
            how=draw(st.sampled_from(How)),
            arguments=draw(st.integers(1, 9)),
            in_all=draw(st.none() | st.integers(1, 10**4)),
            text=draw(st.sampled_from(["table = read()", "", "yield x"])),
        )
        for _ in range(draw(st.integers(1, 3)))
    ]
    calls = load_facts.small(
        draw(st.floats(0, 1)),
        library=draw(st.sampled_from(Library)),
        per_item=draw(st.none() | st.floats(1, 1e9)),
        in_step=draw(st.booleans()),
    )
    again = draw(st.integers(0, 99))
    missed, found = draw(st.integers(1, 10**9)), draw(st.integers(1, 10**9))
    cache = SmallCache(
        LOAD,
        draw(st.integers(1, 10**6)),
        missed + found,
        missed,
        draw(st.floats(0, 1)),
        draw(st.floats(0, 1)),
        draw(st.integers(0, 99)),
        draw(st.sampled_from(Bottleneck)),
    )
    repeated = RepeatedFunction(
        LOAD,
        "load",
        draw(st.floats(0, 1)),
        draw(st.integers(0, 99)),
        draw(st.sampled_from(Bottleneck)),
        seen=draw(st.integers(6, 200)),
        arguments=draw(st.integers(1, 200)),
        in_all=draw(st.none() | st.integers(1, 10**4)),
    )
    invariant = InvariantCall(
        LOAD,
        "load(path)",
        40,
        draw(st.floats(0, 1)),
        draw(st.floats(0, 1)),
        draw(st.integers(0, 99)),
        draw(st.sampled_from(Bottleneck)),
    )
    read = RepeatedRead(
        LOAD,
        draw(st.none() | st.just(LOAD)),
        draw(st.integers(1, 99)),
        draw(st.integers(2, 10**6)),
        draw(st.floats(0, 1)),
        draw(st.sampled_from(Bottleneck)),
    )
    return {
        RepeatedReadFacts: RepeatedReadFacts((read,)),
        InvariantCallFacts: InvariantCallFacts((invariant,)),
        RepeatedFunctionFacts: RepeatedFunctionFacts((repeated,)),
        ItemRepeatFacts: ItemRepeatFacts(again, draw(st.integers(0, again))),
        RepeatedWorkFacts: RepeatedWorkFacts(tuple(work)),
        SmallCacheFacts: SmallCacheFacts((cache,)),
        SmallCallFacts: SmallCallFacts((calls,), draw(st.floats(0, 1e3))),
    }

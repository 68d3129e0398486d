from __future__ import annotations

from textwrap import dedent

import pytest

from perfdoctor.facts.host.repeated_calls import repeated_function_facts
from perfdoctor.facts.host.stack_costs import StackCost, StackCosts
from perfdoctor.facts.user_source.frames import Frame, Owner
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.measured import Phase
from perfdoctor.model.missing import Missing
from perfdoctor.wire.events.loop_calls import LoopCallsEvent
from tests.support.facts import step
from tests.support.records import source_of

TRAIN = "/home/me/train.py"
STEP = step(other=60, forward=40)  # ms
SCRIPT = dedent(
    """\
    def encode(text):
        numbers = []
        for word in text.split():
            numbers.append(len(word))
        return numbers
    class Game:
        def reset(self):
            self.turn = 0
            return [self.turn]
        def rules(self):
            return [self.size, self.size]
    def loud(text):
        tell_somebody(text)
        return text
    for text in texts:
        rows = encode(text)
    def unpack(name):
        return np.frombuffer(zlib.decompress(parts[name]), np.uint8)
    import zlib
    import numpy as np
    """
)
BEGINS = {"encode": 1, "reset": 7, "rules": 10, "loud": 12, "unpack": 17}


def look(function="encode", steps=8, pid=1, **given):
    at = {"file": TRAIN, "line": 16, "function": "<module>"}
    seen = {"calls": 64, "compared": 64, "repeated": 60, "far": 0, "differed": 0, "arguments": 4, **given}
    called = {"callee": function, "module": "__main__", "function": function, "file": TRAIN}
    entry = {"at": at, **called, "line": BEGINS.get(function, 0), **seen}
    return LoopCallsEvent(steps=steps, calls=[entry], pid=pid)


def cost(ms=30.0, function="encode", phase=Phase.OTHER, kind="data", line=16):
    path = Frame("<module>", TRAIN, line, Owner.USER), Frame(function, TRAIN, 4, Owner.USER)
    return StackCost(phase, path, (), 20, ms / 1e3, kind)


def facts(*looks, costs):
    found = StackCosts(100, tuple(costs), {}, frozenset())
    return repeated_function_facts(list(looks), STEP, found, Sources(source_of(train=SCRIPT)))


def test_what_runs_below_such_a_call_is_its_share():
    others = cost(line=15), cost(function="other"), cost(phase=Phase.FORWARD)
    (call,) = facts(look(), costs=(cost(10), cost(22), *others)).calls
    assert (call.at.line, call.at.text, call.name) == (16, "rows = encode(text)", "encode")
    assert (call.samples, call.seen, call.arguments) == (40, 64, 4)
    assert call.share == pytest.approx(0.3)  # 60 of 64 calls
    assert call.bottleneck is Bottleneck.DATA


def test_how_many_arguments_there_are_is_told_by_those_that_came_again():
    few = look(repeated=8, far=8, arguments=56)  # 8 calls a step in 500 steps, of 144
    (call,) = facts(few, costs=(cost(),)).calls
    assert call.in_all == 144
    assert call.share == pytest.approx(0.3 * (1 - 144 / 4000))


def test_the_last_look_of_each_process_counts():
    (call,) = facts(look(steps=4, compared=32, repeated=31), look(), costs=(cost(),)).calls
    assert call.seen == 64


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        pytest.param("encode", True, id="only gives"),
        pytest.param("rules", True, id="reads an object"),
        pytest.param("unpack", True, id="calls what unpacks"),
        pytest.param("reset", False, id="changes an object"),
        pytest.param("loud", False, id="calls what is not known"),
        pytest.param("missing", False, id="not in the sources"),
    ],
)
def test_functions_that_do_more_than_give_a_result_are_left_alone(function, expected):
    found = facts(look(function), costs=(cost(function=function),))
    assert (found is not None and bool(found.calls)) == expected


def test_says_what_was_not_seen():
    assert facts(costs=(cost(),)) is None
    assert facts(look(differed=1), costs=(cost(),)) is None
    missing = Missing("no stacks")
    assert repeated_function_facts([look()], STEP, missing, Sources(source_of(train=SCRIPT))) is missing
    assert facts(look(), costs=()).calls == ()


def test_a_damaged_event_tells_nothing():
    assert facts(LoopCallsEvent(steps=8, calls=[{}, {"at": {"file": TRAIN}}], pid=1), costs=(cost(),)) is None

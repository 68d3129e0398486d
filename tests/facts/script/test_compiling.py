from __future__ import annotations

import pytest

from perfdoctor.facts.script.compiling import compiling_facts
from perfdoctor.facts.steps.boundaries import find
from perfdoctor.facts.steps.span import MeasuredSpan
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.measured import Phase
from perfdoctor.wire.events.compiling import CompileCallEvent, CompiledEvent, GraphBreakEvent
from perfdoctor.wire.step_rows import DISTURBED
from tests.support.records import rows, source_of, update

STEPS = find(rows([update(10)] * 100))
SPAN = MeasuredSpan.of(STEPS)
SOURCES = Sources(source_of(train="model = torch.compile(model)\nself.calls += 1\ndef forward(self, x):"))
INSIDE = SPAN.begin_ns + 1


def line(number):
    return {"file": "/home/me/train.py", "line": number, "function": "forward"}


def event(**given):
    return CompiledEvent(
        **{
            "code": "0", "name": "forward", "function": line(3), "begin_ns": INSIDE, "seconds": 0.25, "kept_s": 0.1,
            "again": False, "backward": False, "given_up": False, "broken": None, "broken_at": None, **given,
        }
    )  # fmt: skip


def again(**given):
    return event(**{"again": True, "broken": "self.calls", "broken_at": line(2), **given})


def facts(*compiled, breaks=(), steps=STEPS):
    calls = [CompileCallEvent(at=line(1))]
    return compiling_facts(list(compiled), list(breaks), calls, MeasuredSpan.of(steps), steps, SOURCES)


def test_what_is_compiled_again_is_counted_with_its_backwards_and_its_line():
    found = facts(
        event(), event(backward=True), again(), again(backward=True, broken=None), again(given_up=True)
    )
    (function,) = found.again
    assert (found.compilations, found.seconds) == (2, pytest.approx(1.25))
    assert (function.name, function.times, function.given_up) == ("forward", 1, True)
    assert (function.seconds, function.kept_s) == pytest.approx((0.75, 0.3))
    assert function.broken == ("self.calls",)
    assert (function.at.text, function.function.text) == ("self.calls += 1", "def forward(self, x):")
    assert [at.text for at in found.calls] == ["model = torch.compile(model)"]


def test_seconds_before_the_first_step_and_after_the_last_are_not_of_the_steps():
    before, after = again(begin_ns=SPAN.begin_ns - 1), again(begin_ns=SPAN.end_ns + 1)
    (function,) = facts(event(), before, after, again()).again
    assert (function.times, function.seconds) == (3, 0.25)


def test_pieces_of_code_are_told_apart_and_those_given_up_come_first():
    given_up = [again(code="1", seconds=0.01), again(code="1", seconds=0.01, given_up=True)]
    assert [each.given_up for each in facts(again(), *given_up).again] == [True, False]
    assert not facts(event(), event(code="1")).again


def test_a_place_where_graphs_break_is_one_however_often_it_was_counted():
    breaks = [GraphBreakEvent(count=n, reason="print", at=line(2)) for n in (1, 2)]
    other = GraphBreakEvent(count=1, reason="a call of a library", at=None)
    found = facts(event(), breaks=[*breaks, other])
    assert [(each.reason, each.at and each.at.line) for each in found.breaks] == [
        ("print", 2),
        ("a call of a library", None),
    ]


def test_without_compilations_there_is_nothing():
    assert facts() is None


def test_compiling_is_taken_from_the_phase_that_took_longer_in_its_step():
    plain = update(10, forward=4, backward=4)
    rows_of = [plain] * 10
    rows_of[2] = update(1010, forward=504, backward=504)
    rows_of[4] = update(510, forward=4, backward=4, validation=500)
    rows_of[6] = update(60, forward=54, backward=4)
    steps = find(rows(rows_of))
    whole_s = float(steps.seconds.sum())

    def within(step, **given):
        return again(begin_ns=int(steps.begin_ns[step]) + 1, **given)

    (found,) = facts(
        event(),
        within(2, seconds=0.5),
        within(2, seconds=0.4, backward=True),
        within(4, seconds=0.3),
        within(6, seconds=0.2),  # torch counts longer than the step took: some of it ran elsewhere
        steps=steps,
    ).again
    assert dict(found.shares) == pytest.approx(
        {
            Phase.FORWARD: 0.55 / whole_s,
            Phase.BACKWARD: 0.4 / whole_s,
            Phase.VALIDATION: 0.3 / whole_s,
        }
    )


def test_compiling_in_most_steps_is_told_from_the_others():
    rows_of = [update(110, forward=104)] * 8 + [update(10, forward=4)] * 2
    steps = find(rows(rows_of))
    events = [again(begin_ns=int(begin_ns) + 1, seconds=0.1) for begin_ns in steps.begin_ns[:8]]
    (found,) = facts(event(), *events, steps=steps).again
    assert dict(found.shares) == pytest.approx({Phase.FORWARD: 0.8 / 0.9})


def test_steps_that_are_not_timed_have_no_part_in_it():
    disturbed = update(1010, forward=1004, flags=DISTURBED)
    steps = find(rows([*[update(10, forward=4)] * 5, disturbed, *[update(10, forward=4)] * 5]))
    (found,) = facts(event(), again(begin_ns=int(steps.begin_ns[5]) + 1, seconds=1.0), steps=steps).again
    assert (found.seconds, sum(share for _, share in found.shares)) == (1.0, 0.0)

from __future__ import annotations

import pytest

from perfdoctor.facts.script.repeated_copies import repeated_copy_facts
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.measured import LineCost, Location, Phase, StackFacts
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from tests.support.records import source_of

SOURCES = Sources(source_of(train="best = copy.deepcopy(model)\nbatch = torch.cat(memory)[index]"))
TRAIN = "/home/me/train.py"


def look(number, seconds=0.002, step_s=0.01, size=8_000_000):
    return {"event": "copies_look", "look": number, "seconds": seconds, "step_s": step_s, "bytes": size}


def line(look, number=1, seconds=0.001, size=6_000_000, **fields):
    at = {"file": TRAIN, "line": number}
    return {
        "event": "copies_line",
        "look": look,
        "seconds": seconds,
        "bytes": size,
        "calls": 4,
        "names": ["clone"],
        "at": at,
        **fields,
    }


def facts(*events, stacks=None):
    return repeated_copy_facts(RankRecords(0, None, None, events), stacks, SOURCES)


def test_shares_and_bytes_are_of_the_looked_at_steps_themselves():
    found = facts(look(1, 0.001), look(2, 0.004, size=9_000_000), look(3, 0.002, step_s=0.02))
    assert (found.samples, found.bytes) == (3, 8_000_000)
    assert (found.share.low, found.share.likely, found.share.high) == pytest.approx((0.1, 0.1, 0.4))


def test_lines_come_costliest_first_and_count_nothing_where_they_did_not_show():
    found = facts(look(1), look(2), look(3), *[line(number) for number in (1, 2, 3)], line(3, 2, 0.009))
    first, second = found.lines
    assert (first.at.line, first.share, first.bytes, first.calls) == (1, pytest.approx(0.1), 6_000_000, 4)
    assert (second.at.line, second.share, second.bytes, second.calls) == (2, 0.0, 0, 0)
    assert first.at.text == "best = copy.deepcopy(model)"
    assert first.names == ("clone",)


def test_what_stack_samples_saw_of_a_line_stands_beside_it():
    at = Location(TRAIN, 1)
    seen = StackFacts(
        100,
        "py-spy",
        {
            Phase.FORWARD: (LineCost(at, 0.02, 2),),
            Phase.OTHER: (LineCost(Location(TRAIN, 9), 0.5, 50), LineCost(at, 0.3, 30)),
        },
    )
    (found,) = facts(look(1), look(2), line(1), line(2), stacks=seen).lines
    assert (found.phase, found.cost.share) == (Phase.OTHER, 0.3)
    (alone,) = facts(look(1), look(2), line(1), line(2), stacks=Missing("no stack samples")).lines
    assert (alone.phase, alone.cost) == (None, None)


LOOP = """import torch
net = torch.nn.Linear(4, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(100):
    loss = net(torch.randn(3, 4)).sum()
    shown = torch.cat([p.data.view(-1) for p in net.parameters()])
    old = [p.data.clone() for p in net.parameters()]
    opt.zero_grad(); loss.backward(); opt.step()
    for p, o in zip(net.parameters(), old): p.data.copy_(o)
    print(shown.norm())
"""


def test_of_copied_weights_the_source_tells_whether_an_update_may_need_them():
    events = [line(look, at, weights=True) for look in (1, 2) for at in (6, 7)]
    rank = RankRecords(0, None, None, (look(1), look(2), *events, line(2, 2)))
    found = repeated_copy_facts(rank, None, Sources(source_of(train=LOOP))).lines
    assert {one.at.line: (one.weights, one.reported) for one in found} == {
        6: (True, True),
        7: (True, False),
        2: (False, False),
    }


def test_copies_of_gradients_are_asked_the_same():
    text = LOOP.replace("p.data.", "p.grad.")
    events = [line(look, at, gradients=True) for look in (1, 2) for at in (6, 7)]
    rank = RankRecords(0, None, None, (look(1), look(2), *events))
    found = repeated_copy_facts(rank, None, Sources(source_of(train=text))).lines
    assert {one.at.line: (one.gradients, one.reported) for one in found} == {
        6: (True, True),
        7: (True, False),
    }


def test_one_look_is_too_few_and_one_that_timed_nothing_does_not_count():
    assert facts(look(1), line(1)) is None
    assert facts(look(1), look(2, step_s=0.0)) is None
    assert facts(look(1), look(2)).lines == ()


def test_on_an_accelerator_it_could_not_be_measured():
    assert isinstance(facts({"event": "device", "backend": "cuda"}), Missing)


def test_broken_records_do_not_fail():
    assert facts(look(1), look(2), line(2, at=None), {"event": "copies_line"}).lines == ()
    assert facts({"event": "copies_look"}, look(None), look(2)) is None

from __future__ import annotations

from textwrap import dedent

import pytest

from perfdoctor.facts.host.invariant_calls import invariant_call_facts
from perfdoctor.facts.host.stack_costs import StackCost, StackCosts
from perfdoctor.facts.user_source.frames import Frame, Owner
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.measured import Phase
from perfdoctor.model.missing import Missing
from tests.support.facts import step
from tests.support.records import source_of

FILE = "/home/me/train.py"
MODULE = "/venv/lib/python3.11/site-packages/torch/nn/modules/module.py"
STEP = step(other=60, forward=20, data_wait=20)  # ms
HELPERS = dedent(
    """\
    def table(words):
        return {word: len(word) for word in words}
    def drawn(words):
        return random.choice(words)
    def grown(words):
        words.append(1)
        return words
    """
)
LINES = {"table": 2, "drawn": 4, "grown": 6}


def facts(body, called="state_dict", anchors=(), ms=30.0, phase=Phase.OTHER):
    """Of a stack that is at the line marked `# here`, in a function of that name."""
    script = HELPERS + dedent(body)
    line = next(number for number, text in enumerate(script.splitlines(), 1) if "# here" in text)
    path = [Frame("follow", FILE, line, Owner.USER)]
    beyond = []
    if called in LINES:
        path.append(Frame(called, FILE, LINES[called], Owner.USER))
    else:
        beyond.append(Frame(called, MODULE, 2000, Owner.TORCH))
    costs = StackCosts(
        100, (StackCost(phase, tuple(path), tuple(beyond), 20, ms / 1e3),), {}, frozenset(anchors)
    )
    return invariant_call_facts(STEP, costs, Sources(source_of(train=script)))


EMA = """
def follow(self, model):
    for name in self.names:
        theirs = model.state_dict()[name]  # here
        self.ours[name].lerp_(theirs, 0.1)
"""


def test_a_listing_of_what_an_object_holds_is_the_same_at_each_turn():
    (call,) = facts(EMA).calls
    assert (call.at.line, call.call, call.loop, call.samples) == (11, "model.state_dict()", 10, 20)
    assert (call.share, call.of_batch) == (pytest.approx(0.3), 0.0)
    assert call.bottleneck is Bottleneck.HOST


def test_what_loaders_wait_for_is_a_part_of_a_batch():
    (call,) = facts(EMA, ms=10, phase=Phase.DATA_WAIT).calls
    assert (call.of_batch, call.bottleneck) == (pytest.approx(0.5), Bottleneck.DATA)


@pytest.mark.parametrize(
    ("body", "called", "expected"),
    [
        pytest.param(
            "for w in ws:\n    x = tokenizer.get_vocab()[w]  # here", "get_vocab", True, id="vocabulary"
        ),
        pytest.param(
            "x = [tokenizer.get_vocab()[w] for w in ws]  # here", "get_vocab", True, id="comprehension"
        ),
        pytest.param(
            "x = [n for n in model.state_dict()]  # here", "state_dict", False, id="gone through once"
        ),
        pytest.param(
            "for w in ws:\n    x = table(ws)[w]  # here", "table", True, id="function that only gives"
        ),
        pytest.param("for w in ws:\n    x = table(w)  # here", "table", False, id="of the turn"),
        pytest.param("for w in ws:\n    x = drawn(ws)  # here", "drawn", False, id="draws"),
        pytest.param("for w in ws:\n    x = grown(ws)  # here", "grown", False, id="changes"),
        pytest.param("for w in ws:\n    x = ask(ws)  # here", "ask", False, id="unknown"),
        pytest.param("for w in ws:\n    x = table(ks)  # here\n    ks.append(w)", "table", False, id="grows"),
        pytest.param(
            "for w in ws:\n    ks = ks + [w]\n    x = table(ks)  # here", "table", False, id="set anew"
        ),
        pytest.param("for w in ws:\n    x = table(ks)  # here\n    ks[w] = x", "table", False, id="filled"),
        pytest.param("for w in ws:\n    x = table(ks)  # here\n    fill(ks)", "table", False, id="handed on"),
        pytest.param(
            "for m in models:\n    for w in ws:\n        x = m.state_dict()[w]  # here",
            "state_dict",
            True,
            id="inner",
        ),
        pytest.param("x = model.state_dict()  # here", "state_dict", False, id="no loop"),
    ],
)
def test_what_a_call_is_given_must_stay(body, called, expected):
    found = facts(body, called)
    assert (found is not None) == expected


def test_the_loop_that_trains_is_another_matter():
    body = "for x in loader:\n    names = model.state_dict()  # here\n    model(x).backward()"
    assert facts(body, anchors=[(FILE, 10)]) is None


def test_says_what_was_not_seen():
    missing = Missing("no stacks")
    assert invariant_call_facts(STEP, missing, Sources(source_of(train=EMA))) is missing


def test_what_is_given_the_next_of_an_iterator_is_another_at_each_turn():
    body = "def follow(self):\n    for _ in range(9):\n        yield table({})  # here"
    assert facts(body.format("self.words"), "table") is not None
    assert facts(body.format("next(self.words)"), "table") is None

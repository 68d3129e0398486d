"""Attention that is given the same keys and values with one query after another."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from tests.support.watched import watched

pytestmark = pytest.mark.process

TURNS = 5
# How many looks a run has is not for the budget of their time to say: beside other work each takes longer.
SCRIPT = """
    import sys, weakref, torch; sys.modules["_perfdoctor.probe.observers.module_calls"].FREE_NS = 1 << 62
    from torch import nn
    torch.set_num_threads(1)
    torch.manual_seed(0)
    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.context = nn.Linear(32, 32)
            self.attention = nn.MultiheadAttention(32, 4, batch_first=True)
        def forward(self, state, keys, values):
            query = self.context(state).unsqueeze(1)
            return self.attention(query, keys, value=values, need_weights=False)[0].squeeze(1)
    encoder, decoder = nn.Linear(3, 32), Decoder()
    opt = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.01)
    for step in range(10):
        nodes = encoder(torch.randn(8, 20, 3))
        first = state = nodes[:, 0]
"""
LOOP = """
        for turn in range(5):
            state = state + decoder(state, nodes, nodes)
        loss = state.mean()
"""
UPDATE = """
        opt.zero_grad(); loss.backward(); opt.step()
"""


def told(tmp_path, loop: str, update: str = UPDATE):
    """What was seen again in the last look."""
    events = watched(tmp_path, SCRIPT + loop + update).ranks[0].of("repeat")
    return [event for event in events if event["look"] == 3]


def projections(tmp_path, loop: str, update: str = UPDATE):
    return [event for event in told(tmp_path, loop, update) if event["projections"]]


def test_projections_of_the_same_keys_and_values_are_seen_with_their_backward(tmp_path):
    (event,) = told(tmp_path, LOOP)
    assert (event["module"], event["projections"]) == ("MultiheadAttention", True)
    assert (event["count"], event["inputs"]) == (TURNS - 1, 1)
    assert (event["first"]["line"], event["at"]["line"]) == (13, 13)
    assert (event["recording"], event["walked"], event["by_chance"]) == (True, True, False)
    assert event["seconds"] > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "loop",
    [
        pytest.param(
            "with torch.no_grad():\n            " + LOOP.strip().replace("\n", "\n    "), id="no-gradients"
        ),
        pytest.param(LOOP.replace("state.mean()", "encoder(torch.randn(8, 3)).mean()"), id="not-in-the-loss"),
        pytest.param("decoder(state + 1, nodes, nodes)" + LOOP, id="the-first-is-thrown-away"),
    ],
)
def test_where_backward_does_not_go_through_all_they_are_seen_without_it(tmp_path, loop):
    update = "\n        loss = loss if loss.requires_grad else encoder(torch.randn(8, 3)).mean()" + UPDATE
    found = projections(tmp_path, f"\n        {loop.strip()}\n", update)
    assert [event["walked"] for event in found] == [False]


@pytest.mark.slow
@pytest.mark.parametrize(
    "loop",
    [
        pytest.param(LOOP.replace("nodes, nodes)", "nodes + 0, nodes + 0)"), id="made-anew"),
        pytest.param(LOOP.replace("nodes, nodes)", "nodes.tanh(), nodes)"), id="other-keys"),
        pytest.param(
            "nodes = nodes.detach()\n"
            "        for turn in range(5):\n"
            "            with torch.no_grad(): nodes.add_(0.1)\n"
            "            with torch.no_grad(): state = state + decoder(state, nodes, nodes)\n"
            "        loss = decoder(state, nodes, nodes).mean()",
            id="changed-in-place",
        ),
        pytest.param(
            "nodes = nodes.detach()\n"
            "        for turn in range(5):\n"
            "            decoder(torch.randn(8, 32), nodes, nodes).mean().backward()\n"
            "        loss = encoder(torch.randn(8, 3)).mean()",
            id="a-backward-each",
        ),
        pytest.param(
            "loss = (decoder(state, nodes, nodes) - decoder.eval()(state + 1, nodes, nodes)).mean()\n"
            "        decoder.train()",
            id="another-mode",
        ),
        pytest.param(
            "if not step: decoder.attention.register_forward_pre_hook(lambda module, given: None)\n" + LOOP,
            id="a-hook-that-may-change-weights",
        ),
        pytest.param(
            "states = torch.randn(5, 8, 300, 32)\n"
            "        few = nodes[:, :2]\n"
            "        attention = decoder.attention\n"
            "        loss = sum(attention(one, few, few, need_weights=False)[0].mean() for one in states)",
            id="few-keys-of-many-queries",
        ),
    ],
)
def test_is_not_accused(tmp_path, loop):
    assert projections(tmp_path, f"\n        {loop.strip()}\n") == []


def test_inside_of_a_call_that_is_repeated_as_a_whole_they_are_not_told_again(tmp_path):
    loop = """
        with torch.no_grad():
            keys = torch.randn(64, 100, 32)
            state = torch.randn(64, 32)
            for turn in range(5):
                decoder(state, keys, keys)
        loss = nodes.mean()
    """
    assert [(event["module"], event["projections"]) for event in told(tmp_path, loop.rstrip() + "\n")] == [
        ("Decoder", False)
    ]


def test_what_was_given_is_not_kept(tmp_path):
    loop = LOOP + "        weak = weakref.ref(nodes); del nodes, first, state\n"
    update = f"{UPDATE}        del loss\n        assert weak() is None\n"
    assert projections(tmp_path, loop, update)

"""Modules to whose results nothing but zeros comes back are told, by their lines."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from perfdoctor.wire.events.zero_weight_losses import ZeroWeightLossEvent
from tests.support.watched import watched

pytestmark = pytest.mark.process

LEAST = 3  # of the four steps that are sampled: on crowded cores one may take too long

SCRIPT = """
    import torch
    from torch import nn
    torch.set_num_threads(1)
    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256))
        def forward(self, x):
            return {returned}
    encoder, decoder, head = nn.Linear(256, 256), Decoder(), nn.Linear(256, 1)
    opt = torch.optim.SGD([*encoder.parameters(), *decoder.parameters(), *head.parameters()], lr=0.01)
    losses = []
    for step in range(20):
        x = torch.randn(256, 256)
        features = encoder(x)
        loss = head(features).square().mean()
        extra = decoder(features)
        loss = loss + {weight} * {extra}
        opt.zero_grad(); loss.backward(); opt.step()
"""


def told(tmp_path, weight, returned="self.layers(x)", extra="(extra - x).square().mean()"):
    """(look, class, calls, line) of each event."""
    script = SCRIPT.format(weight=weight, returned=returned, extra=extra)
    events = watched(tmp_path, script).ranks[0].of(ZeroWeightLossEvent)
    assert all(0 < event.seconds < event.called_s for event in events)
    return [(event.look, event.module, event.calls, (event.at or {}).get("line")) for event in events]


def test_a_part_whose_loss_has_no_weight_is_told_as_a_whole(tmp_path):
    found = told(tmp_path, "0.0")
    assert len(found) >= LEAST
    assert found == [(look, "Decoder", 1, 18) for look in (1, 2, 3, 4)][: len(found)]


def test_and_from_when_on(tmp_path):
    assert [event[0] for event in told(tmp_path, "max(0.0, 1.0 - step / 6)")] == [3, 4]


def test_a_part_that_gets_gradients_is_not(tmp_path):
    assert told(tmp_path, "1e-6") == []


def test_of_several_results_some_may_get_none(tmp_path):
    pair = "(self.layers(x), self.layers(x).detach())"
    found = [event[1] for event in told(tmp_path, "0.0", pair, "extra[0].mean()")]
    assert len(found) >= LEAST
    assert set(found) == {"Decoder"}


def test_of_a_call_with_other_results_the_part_inside_is_told(tmp_path):
    pair = "(self.layers(x), x * 2)"
    found = told(tmp_path, "1.0", pair, "(extra[1].mean() + 0.0 * extra[0].mean())")
    assert len(found) >= LEAST
    assert {event[1] for event in found} == {"Sequential"}


def test_where_a_model_returns_a_loss_of_zero_all_of_it_is_told(tmp_path):
    """As where each triplet of a batch is apart already: the model learns nothing, and none of it is to go."""
    script = """
        import torch
        from torch import nn
        torch.set_num_threads(1)
        class Triplets(nn.Module):
            def __init__(self):
                super().__init__()
                self.net = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256))
            def forward(self, x, other):
                return torch.relu((self.net(x) - self.net(other)).square().sum(1) - 1e9).mean()
        model = Triplets()
        opt = torch.optim.SGD(model.parameters(), lr=0.01)
        for step in range(20):
            loss = model(torch.randn(256, 256), torch.randn(256, 256))
            opt.zero_grad(); loss.backward(); opt.step()
    """
    events = watched(tmp_path, script).ranks[0].of(ZeroWeightLossEvent)
    assert events
    assert all(event.seconds == pytest.approx(event.called_s) for event in events)

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from perfdoctor.wire.events.training import DiscardedGradientsEvent
from tests.support.watched import watched

pytestmark = pytest.mark.process

SCRIPT = """
    import torch
    from torch import nn
    torch.manual_seed(0)
    G = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.Tanh())
    D = nn.Sequential(nn.Linear(8, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
    opt_g = torch.optim.Adam(G.parameters(), lr=1e-3)
    opt_d = torch.optim.Adam(D.parameters(), lr=1e-3)
    for step in range(60):
        real, noise = torch.rand(6, 8), torch.randn(6, 4)
        {before}
        fake = {fake}
        opt_d.zero_grad({how})
        D(real).mean().backward()
        loss = -D({entry}).mean()
        loss.backward({given})
        {clip}
        opt_d.step()
        {clear}
        D(G(noise)).mean().backward()
        opt_g.step()
        {after}
"""
PLANTED = {
    "fake": "G(noise)",
    "entry": "fake",
    "clear": "opt_g.zero_grad()",
    "how": "",
    "before": "",
    "after": "",
    "given": "",
    "clip": "",
}


def looks(tmp_path, **changed):
    script = SCRIPT.format(**{**PLANTED, **changed})
    return watched(tmp_path, script).ranks[0].of(DiscardedGradientsEvent)


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({}, id="dropped"),
        pytest.param({"clear": "opt_g.zero_grad(set_to_none=False)"}, id="zeroed"),
        pytest.param({"clear": "[p.grad.data.zero_() for p in G.parameters()]"}, id="zeroed-behind"),
        pytest.param({"clear": "for p in G.parameters(): p.grad = None"}, id="by-hand"),
        pytest.param({"clip": "nn.utils.clip_grad_norm_(D.parameters(), 0.01)"}, id="clipped"),
    ],
)
def test_a_backward_through_a_network_whose_gradients_are_cleared_is_found(tmp_path, changed):
    events = looks(tmp_path, **changed)
    assert events
    for event in events:
        assert (event.name, event.at["line"], event.held_at["line"]) == ("fake", 16, 16)
        assert event.backwards == 3 * event.of_line > 0
        assert event.elements == 4 * 8 + 8 + 8 * 8 + 8
        assert 0 < event.needless_s < event.line_s < event.seconds


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"entry": "fake.detach()"}, id="detached"),
        pytest.param({"given": "inputs=list(D.parameters())"}, id="inputs"),
        pytest.param({"before": "G.requires_grad_(False)", "clear": "G.requires_grad_(True)"}, id="frozen"),
        pytest.param({"clear": "", "after": "opt_g.zero_grad()"}, id="added-to-the-others"),
        pytest.param({"clear": "opt_g.step(); opt_g.zero_grad()"}, id="used-by-an-update"),
        pytest.param(
            {"clip": "opt_d.zero_grad(); opt_g.zero_grad(); D(real).mean().backward()"}, id="all-thrown-away"
        ),
    ],
)
def test_what_is_detached_frozen_or_used_is_none(tmp_path, changed):
    events = looks(tmp_path, **changed)
    assert events
    assert all((event.needless_s, event.of_line, event.at) == (0.0, 0, None) for event in events)


def test_one_optimizer_is_not_looked_at(tmp_path):
    script = """
        import torch
        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(80):
            optimizer.zero_grad()
            model(torch.ones(8, 4)).sum().backward()
            optimizer.step()
    """
    assert watched(tmp_path, script).ranks[0].of(DiscardedGradientsEvent) == []

from __future__ import annotations

import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

from perfdoctor.wire.events.training import DiscardedGradientsEvent
from tests.support.watched import TIMEOUT_S, watched

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


@pytest.mark.slow
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


ATTACK = """
    import torch
    from torch import nn
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.BatchNorm1d(8), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(30):
        image = torch.rand(6, 8, requires_grad=True)
        for attack in range(3):
            loss = model(image).sum()
            {backward}
            image.data.add_(image.grad, alpha=0.1)
            image.grad = None
        {clear}
        model(image.detach()).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
"""
ATTACKED = {"backward": "loss.backward()", "clear": "model.zero_grad()"}


def attacks(tmp_path, **changed):
    return watched(tmp_path, ATTACK.format(**{**ATTACKED, **changed})).ranks[0].of(DiscardedGradientsEvent)


def test_a_backward_for_the_gradient_of_an_input_computes_those_of_parameters_in_vain(tmp_path):
    events = attacks(tmp_path)
    assert events
    for event in events:
        assert (event.asked, event.name, event.at["line"]) == (True, "image", 11)
        assert event.elements == 8 * 8 + 8 + 8 + 8 + 8 + 1
        assert event.of_line == event.backwards * 3 // 4
        assert 0 < event.needless_s < event.line_s < event.seconds


@pytest.mark.slow
@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"clear": ""}, id="added-to-those-of-the-update"),
        pytest.param({"backward": "loss.backward(inputs=[image])"}, id="inputs"),
        pytest.param({"backward": "image.grad, = torch.autograd.grad(loss, image)"}, id="asked-for-alone"),
    ],
)
def test_where_gradients_of_parameters_are_used_or_not_computed_none_is_in_vain(tmp_path, changed):
    assert all((event.needless_s, event.at) == (0.0, None) for event in attacks(tmp_path, **changed))


def test_gradients_that_are_added_up_are_not_looked_at(tmp_path):
    script = """
        import torch
        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(80):
            model(torch.ones(8, 4)).sum().backward()
            if step % 4 == 3:
                optimizer.step()
                optimizer.zero_grad()
    """
    assert watched(tmp_path, script).ranks[0].of(DiscardedGradientsEvent) == []


def test_watching_leaves_the_result_as_it_is(tmp_path):
    code = (
        SCRIPT.format(**PLANTED) + "    torch.save([*G.state_dict().values(), loss.detach()], 'result.pt')\n"
    )
    watched(tmp_path, code)
    seen = torch.load(tmp_path / "result.pt")
    subprocess.run([sys.executable, "script.py"], cwd=tmp_path, check=True, timeout=TIMEOUT_S)
    assert all(
        torch.equal(one, other) for one, other in zip(seen, torch.load(tmp_path / "result.pt"), strict=True)
    )


def test_an_attribute_that_holds_the_tensor_is_named(tmp_path):
    script = """
        import torch
        from torch import nn
        policy, value = nn.Linear(4, 2), nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
        p_opt = torch.optim.Adam(policy.parameters())
        v_opt = torch.optim.Adam(value.parameters())

        class Agent:
            def learn(self, state, gain):
                self.advantage = gain - value(state)
                p_opt.zero_grad()
                (policy(state).log_softmax(1) * self.advantage).mean().backward()
                p_opt.step()
                v_opt.zero_grad()
                (gain - value(state)).pow(2).mean().backward()
                v_opt.step()

        agent = Agent()
        for step in range(40):
            agent.learn(torch.rand(8, 4), torch.rand(8, 1))
    """
    events = watched(tmp_path, script).ranks[0].of(DiscardedGradientsEvent)
    assert [(event.name, event.at["line"]) for event in events] == [("self.advantage", 12)] * len(events)
    assert events

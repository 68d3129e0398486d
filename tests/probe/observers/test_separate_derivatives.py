from __future__ import annotations

import pytest

pytest.importorskip("torch")

from tests.support.watched import watched

pytestmark = pytest.mark.process

SCRIPT = """
    import torch
    from torch import nn
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
    opt = torch.optim.Adam(net.parameters())
    def derive(output, by):
        return torch.autograd.grad(output, by, torch.ones_like(output), create_graph=True)[0]
    for step in range(40):
        x, t = (torch.rand(16, 1, requires_grad=True) for _ in range(2))
        u = net(torch.cat([x, t], 1))
        {step}
        opt.zero_grad()
        loss.backward()
        opt.step()
"""
APART = """u_x = derive(u, x)
        u_t = derive(u, t)
        u_xx = derive(u_x, x)
        loss = (u_t - u_xx).square().mean()"""


def looks(tmp_path, step):
    return watched(tmp_path, SCRIPT.replace("{step}", step)).ranks[0].of("derivatives")


def test_calls_by_other_inputs_of_one_output_are_told_with_their_lines(tmp_path):
    found = looks(tmp_path, APART)
    assert len(found) == 3
    for look in found:
        assert (look["calls"], look["again"]) == (3, 1)
        assert 0 < look["again_s"] < look["seconds"]
        assert look["backward_s"] > 0
        assert look["again_nodes"] > 0
        assert [line["line"] for line in look["lines"]] == [12, 13]  # not that of the function


@pytest.mark.slow
@pytest.mark.parametrize(
    "step",
    [
        pytest.param(
            "u_x, u_t = torch.autograd.grad(u.sum(), (x, t), create_graph=True)\n"
            "        loss = (u_x - u_t).square().mean()",
            id="in-one-call",
        ),
        pytest.param(
            "loss = sum(derive(part, x).square().mean() for part in u.split(8))", id="rows-of-a-jacobian"
        ),
        pytest.param(
            "x_again = [torch.autograd.grad(u, x, seed, create_graph=True)[0] "
            "for seed in torch.rand(2, 16, 1)]\n"
            "        loss = sum(each.square().mean() for each in x_again)",
            id="the-same-input-with-other-seeds",
        ),
        pytest.param("loss = u.square().mean()", id="no-derivative"),
    ],
)
def test_nothing_is_told_otherwise(tmp_path, step):
    assert looks(tmp_path, step) == []

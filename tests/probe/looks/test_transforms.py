"""Training inside torch.func, watched."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from perfdoctor.wire.step_rows import UPDATE
from tests.support.watched import watched

pytestmark = pytest.mark.process

PER_SAMPLE = """
    import torch
    from torch.func import functional_call, grad, vmap
    net = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    def loss_of(parameters, x, y):
        return (functional_call(net, parameters, (x,)) - y).square().mean()
    for step in range(6):
        parameters = {name: p.detach() for name, p in net.named_parameters()}
        each = vmap(grad(loss_of), in_dims=(None, 0, 0))(parameters, torch.ones(8, 4), torch.ones(8, 1))
        for name, p in net.named_parameters():
            p.grad = each[name].mean(0)
        optimizer.step()
    net(torch.ones(2, 4)).sum().backward()
    optimizer.step()
"""


def test_gradients_of_single_samples_have_no_loss_to_read_and_those_after_them_have(tmp_path):
    rank = watched(tmp_path, PER_SAMPLE).ranks[0]
    assert rank.of("end")[-1]["broken"] == {}
    losses = rank.steps[rank.steps["marker"] == UPDATE]["loss"]
    assert len(losses) == 7
    assert losses[-1] == losses[-1]

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from tests.support.watched import watched

pytestmark = pytest.mark.process

SCRIPT = """
    import torch
    from torch import nn
    torch.manual_seed(0)
    body, heads = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8)), [nn.Linear(8, 1) for _ in range(3)]
    opt = torch.optim.SGD([p for part in (body, *heads) for p in part.parameters()], lr=0.1)
    for step in range(40):
        opt.zero_grad()
        x = torch.randn(6, 4)
        {step}
        opt.step()
"""
EACH = """
        shared = body(x)
        for head in heads:
            head(shared).mean().backward(retain_graph=True)
            {between}
"""


def pairs(tmp_path, step):
    return watched(tmp_path, SCRIPT.replace("        {step}", step)).ranks[0].of("repeated_backward")


def test_losses_of_one_graph_that_go_backward_one_by_one_share_its_nodes(tmp_path):
    found = pairs(tmp_path, EACH.format(between=""))
    assert len(found) == 3
    for pair in found:
        assert 0.3 < pair["shared"] / pair["nodes"] < 1.0
        assert pair["at"]["function"] == "<module>"


@pytest.mark.slow
@pytest.mark.parametrize(
    "step",
    [
        pytest.param("        sum(head(body(x)).mean() for head in heads).backward()", id="of-the-sum"),
        pytest.param(
            "        for part in x.split(2): heads[0](body(part)).mean().backward()", id="accumulating"
        ),
        pytest.param(EACH.format(between="body.zero_grad()"), id="gradients-are-cleared-between"),
    ],
)
def test_nothing_is_shared_otherwise(tmp_path, step):
    assert not any(pair["shared"] for pair in pairs(tmp_path, step))

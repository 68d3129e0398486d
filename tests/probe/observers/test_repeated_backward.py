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


ONE_LOSS = """
        shared = body(x)
        loss = sum(head(shared).square().mean() for head in heads)
        of = [*body.parameters(), *(p for head in heads for p in head.parameters())]
        of_heads = of[len(list(body.parameters())):]
        ones = torch.ones(())
"""
GRAD = "torch.autograd.grad(loss, of, retain_graph=True)"


def passes(tmp_path, *lines):
    step = ONE_LOSS + "".join(f"        {line}\n" for line in lines)
    rank = watched(tmp_path, SCRIPT.replace("        {step}", step)).ranks[0]
    assert not rank.of("repeated_backward")
    return rank.of("repeated_pass")


@pytest.mark.parametrize(
    ("lines", "superfluous"),
    [
        pytest.param((GRAD, "loss.backward()"), 0, id="before-backward"),
        pytest.param(("loss.backward(retain_graph=True)", GRAD), 1, id="after-it"),
        pytest.param((GRAD, "torch.autograd.backward([loss])"), 0, id="by-a-list-of-losses"),
        pytest.param((GRAD, "loss.backward(inputs=of)"), 0, id="by-inputs"),
        pytest.param(
            ("torch.autograd.grad(loss, of_heads, retain_graph=True)", "loss.backward()"), 0, id="of-some"
        ),
        pytest.param(
            ("torch.autograd.grad(loss, (p for p in of), retain_graph=True)", "loss.backward()"),
            0,
            id="of-an-iterator",
        ),
        pytest.param(
            ("loss.backward(retain_graph=True)", "opt.zero_grad()", "loss.backward()"),
            0,
            id="cleared-between",
        ),
        pytest.param((GRAD, "for p, g in zip(of, torch.autograd.grad(loss, of)): p.grad = g"), 1, id="both"),
        pytest.param(
            ("torch.autograd.grad(loss, of, ones, retain_graph=True)", "loss.backward(ones)"),
            0,
            id="of-one-seed",
        ),
    ],
)
def test_a_pass_that_computes_what_another_one_does_is_told_with_its_line(tmp_path, lines, superfluous):
    found = passes(tmp_path, *lines)
    assert len(found) == 3
    assert all((one["at"]["line"] > one["other_at"]["line"]) == superfluous for one in found)
    adds = "backward(" in lines[superfluous]
    assert {one["adds"] for one in found} == {adds}
    assert all(one["seconds"] > 0 < one["other_s"] for one in found)


@pytest.mark.slow
@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(("loss.backward()",), id="once"),
        pytest.param(
            ("torch.autograd.grad(loss, of, create_graph=True)", "loss.backward()"), id="makes-a-graph"
        ),
        pytest.param(
            (
                "g = torch.autograd.grad(loss, of, create_graph=True)",
                "torch.autograd.grad(sum(one.sum() for one in g), of, retain_graph=True)",
                "loss.backward()",
            ),
            id="hessian-vector-product",
        ),
        pytest.param(
            ("torch.autograd.grad(loss, shared, retain_graph=True)", "loss.backward()"), id="of-activations"
        ),
        pytest.param(
            ("torch.autograd.grad(loss, of, ones * 2, retain_graph=True)", "loss.backward()"), id="of-a-seed"
        ),
        pytest.param((GRAD, "(loss + 1).backward()"), id="another-loss"),
        pytest.param(
            (
                "torch.autograd.grad(loss, of_heads, retain_graph=True)",
                "loss.backward(inputs=list(body.parameters()))",
            ),
            id="of-others",
        ),
        pytest.param(
            (
                "for part in range(2):",
                "    loss = body(x).mean(); torch.autograd.grad(loss, of[:4], retain_graph=True)",
                "    loss.backward()",
            ),
            id="gradients-accumulate",
        ),
        pytest.param(
            (GRAD, "torch.no_grad()(heads[0].bias.add_)(0.0)", "loss.backward()"), id="changed-between"
        ),
    ],
)
def test_passes_that_compute_something_else_are_not(tmp_path, lines):
    assert passes(tmp_path, *lines) == []

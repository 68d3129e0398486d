"""Distances of all pairs are told by their lines; products of matrices are not."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from tests.support.watched import watched

pytestmark = pytest.mark.process

LOOP = """
    import torch
    from torch import nn
    from torch.nn import functional as F
    torch.manual_seed(0)
    torch.set_num_threads(1)
    net = nn.Linear(32, 32)
    book = nn.Parameter(torch.randn(128, 32))
    opt = torch.optim.SGD([book, *net.parameters()], lr=0.01)
    for step in range(300):
        x = net(torch.randn(128, 32))
        {line}
        loss = near.mean()
        opt.zero_grad(); loss.backward(); opt.step()
"""
LINE = 1 + LOOP[: LOOP.index("{line}")].count("\n")


def lines(tmp_path, line):
    """The number of looks, three or as many more as their time allows, and what they told."""
    own = watched(tmp_path, LOOP.format(line=line)).ranks[0]
    looks = [look["look"] for look in own.of("broadcast_distances_look")]
    assert looks == list(range(1, 1 + len(looks)))
    assert len(looks) >= 3
    return len(looks), [
        (event["at"]["line"], event["kind"], event["pairs"], event["width"], event["backward_s"] > 0)
        for event in own.of("broadcast_distances_line")
    ]


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("near = (x[:, None] - book[None]).pow(2).sum(-1)", "distance"),
        ("near = ((x.unsqueeze(1) - book) ** 2).sum(dim=2).sqrt()", "distance"),
        ("near = (x[:, None] * book).sum(-1)", "product"),
        ("near = F.cosine_similarity(x[:, None], book[None], dim=-1)", "cosine"),
        ("near = torch.abs(x[:, None] - book).mean(-1)", "absolute"),
    ],
)
def test_what_is_broadcast_and_summed_is_told_in_each_look(tmp_path, line, kind):
    looks, told = lines(tmp_path, line)
    assert told == [(LINE, kind, 128 * 128, 32, True)] * looks


@pytest.mark.parametrize("line", ["near = torch.cdist(x, book)", "near = x @ book.T"])
def test_products_of_matrices_are_not(tmp_path, line):
    assert lines(tmp_path, line)[1] == []

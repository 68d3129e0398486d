"""Diagonal matrices are told by their lines; full ones are not."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from tests.support.watched import watched

pytestmark = pytest.mark.process

LOOP = """
    import torch
    from torch import nn
    torch.manual_seed(0)
    torch.set_num_threads(1)
    net = nn.Linear(16, 12)
    opt = torch.optim.SGD(net.parameters(), lr=0.001)
    for step in range(300):
        mean, std = net(torch.randn(64, 16)).chunk(2, -1)
        std = std.exp().clamp(0.1, 2)
        {line}
        loss = -normal.log_prob(torch.randn(64, 6)).mean()
        opt.zero_grad(); loss.backward(); opt.step()
"""
LINE = 1 + LOOP[: LOOP.index("{line}")].count("\n")


def lines(tmp_path, line):
    own = watched(tmp_path, LOOP.format(line="normal = torch.distributions." + line)).ranks[0]
    assert [look["look"] for look in own.of("diagonal_matrices_look")] == [1, 2, 3]
    return {
        (event["at"]["line"], event["matrices"], event["width"], event["distribution"])
        for event in own.of("diagonal_matrices_line")
        if event["backward_s"] > 0
    }


def test_a_diagonal_covariance_is_told_with_its_lines(tmp_path):
    found = lines(tmp_path, "MultivariateNormal(mean, torch.diag_embed(std.square()))")
    assert found == {(LINE, 64, 6, True), (LINE + 1, 64, 6, True)}


def test_a_full_covariance_is_not(tmp_path):
    line = "MultivariateNormal(mean, torch.diag_embed(std) + 0.1 * std.unsqueeze(-1) @ std.unsqueeze(-2))"
    assert lines(tmp_path, line) == set()

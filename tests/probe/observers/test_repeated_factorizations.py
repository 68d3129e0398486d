"""Matrices that are factorised several times are told by their lines."""

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
    net = nn.Linear(16, 64)
    opt = torch.optim.SGD(net.parameters(), lr=0.001)
    sides = torch.randn(5, 8)
    for step in range(300):
        matrix = net(torch.randn(4, 16)).view(4, 8, 8) + 9 * torch.eye(8)
        {line}
        opt.zero_grad(); loss.backward(); opt.step()
"""
LINE = 1 + LOOP[: LOOP.index("{line}")].count("\n")


def lines(tmp_path, solved):
    own = watched(tmp_path, LOOP.format(line=f"loss = {solved}.square().mean()")).ranks[0]
    assert [look["look"] for look in own.of("repeated_factorizations_look")] == [1, 2, 3]
    return {
        (event["at"]["line"], event["matrices"], event["width"], event["times"])
        for event in own.of("repeated_factorizations_line")
        if event["backward_s"] > 0
    }


def test_a_matrix_that_is_broadcast_over_its_sides_is_told(tmp_path):
    found = lines(tmp_path, "torch.linalg.solve(matrix[:, None], sides[None, :, :, None])")
    assert found == {(LINE, 4, 8, 5)}


@pytest.mark.slow
def test_sides_as_columns_are_not(tmp_path):
    assert lines(tmp_path, "torch.linalg.solve(matrix, sides.T.expand(4, 8, 5))") == set()


def test_a_matrix_that_each_step_is_given_again_is_told(tmp_path):
    solved = "torch.linalg.solve(9 * torch.eye(8), net(torch.randn(4, 16)).T.reshape(8, -1))"
    own = watched(tmp_path, LOOP.format(line=f"loss = {solved}.square().mean()")).ranks[0]
    found = own.of("repeated_factorizations_line")
    assert {(event["at"]["line"], event["times"], event["again"]) for event in found} == {(LINE, 1, 1)}

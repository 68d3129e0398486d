"""Fourier transforms by dense kernels are told by their lines; other kernels are not."""

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
    rows = torch.fft.rfft(torch.eye(64))
    dense = torch.cat([rows.real, rows.imag], 1).t() * torch.hann_window(64)
    kernels = {kernels}
    net = nn.Conv1d(1, 1, 3, padding=1)
    opt = torch.optim.SGD(net.parameters(), lr=0.001)
    for step in range(300):
        wave = net(torch.randn(4, 1, 256))
        loss = torch.conv1d(wave, kernels, stride=16).square().mean()
        opt.zero_grad(); loss.backward(); opt.step()
"""
LINE = 1 + LOOP[: LOOP.index("loss = ")].count("\n")


def lines(tmp_path, kernels):
    own = watched(tmp_path, LOOP.format(kernels=kernels)).ranks[0]
    assert [look["look"] for look in own.of("fourier_products_look")] == [1, 2, 3]
    return {
        (event["at"]["line"], event["taps"], event["rows"], event["hop"])
        for event in own.of("fourier_products_line")
        if event["backward_s"] > 0
    }


def test_fourier_rows_are_told_with_their_line(tmp_path):
    assert lines(tmp_path, "dense[:, None].contiguous()") == {(LINE, 64, 66, 16)}


@pytest.mark.parametrize("kernels", ["torch.randn(66, 1, 64)", "nn.Parameter(dense[:, None].contiguous())"])
def test_random_and_learned_kernels_are_not(tmp_path, kernels):
    assert lines(tmp_path, kernels) == set()

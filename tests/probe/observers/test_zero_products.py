"""Products with matrices of zeros are told by their lines; what is learned, and dense data, is not."""

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
    table = nn.Parameter(torch.randn(512, 32))
    net = nn.Linear(32, 8)
    opt = torch.optim.SGD([table, *net.parameters()], lr=0.01)
    data = torch.rand(512, 512)
    graph = (torch.rand(512, 512) < 0.01).float() / 5
    for step in range(300):
        index = torch.randint(512, (256,))
        {line}
        loss = net(x).pow(2).mean()
        opt.zero_grad(); loss.backward(); opt.step()
"""
LINE = 1 + LOOP[: LOOP.index("{line}")].count("\n")


def lines(tmp_path, line):
    own = watched(tmp_path, LOOP.format(line=line)).ranks[0]
    assert [look["look"] for look in own.of("zero_products_look")] == [1, 2, 3]
    return [
        (event["at"]["line"], event["rows"], event["columns"], event["one_hot"], event["backward_s"] > 0)
        for event in own.of("zero_products_line")
    ]


def test_a_one_hot_matrix_is_told_with_its_line_in_each_look(tmp_path):
    assert (
        lines(tmp_path, "x = nn.functional.one_hot(index, 512).float() @ table")
        == [(LINE, 256, 512, True, True)] * 3
    )


def test_a_graph_kept_dense_is_told_too(tmp_path):
    assert lines(tmp_path, "x = graph @ table") == [(LINE, 512, 512, False, True)] * 3


@pytest.mark.parametrize("line", ["x = table[index]", "x = data @ table"])
def test_an_index_and_dense_data_are_not(tmp_path, line):
    assert lines(tmp_path, line) == []

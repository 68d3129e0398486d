"""Modules that a step calls many times are told with the lines that lead to them."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from tests.support.watched import watched

pytestmark = pytest.mark.process

SCRIPT = """
    import torch
    from torch import nn
    torch.set_num_threads(1)
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.LSTM(8, 4)
            self.out = nn.Linear(4, 3)
            self.once = nn.Linear(3, 3)
        def forward(self, items):
            found = []
            for item in items:
                found.append(self.out(self.rnn(item)[0][-1]))
            with torch.no_grad():
                [self.once(one) for one in found]
            return self.once(torch.stack(found))
    net = Net()
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    for step in range(6):
        loss = net([torch.randn(5, 8) for _ in range({items})]).mean()
        opt.zero_grad(); loss.backward(); opt.step()
"""


def told(tmp_path, items):
    """(classes, turns, products, lines) of the first look."""
    events = watched(tmp_path, SCRIPT.format(items=items)).ranks[0].of("module_turns")
    return [
        (event["names"], event["turns"], event["products"], [line["line"] for line in event["lines"]])
        for event in events
        if event["look"] == 1
    ]


def test_calls_that_record_gradients_are_counted_with_their_products(tmp_path):
    lstm, linear = 20 * 5 * (4 * 4) * (8 + 4), 20 * 4 * 3
    assert told(tmp_path, 20) == [(["LSTM", "Linear"], 20, lstm + linear, [14, 21])]


def test_few_calls_are_not_told(tmp_path):
    assert told(tmp_path, 12) == []

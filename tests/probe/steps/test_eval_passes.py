from __future__ import annotations

import pytest

pytest.importorskip("torch")

from tests.support.watched import watched

pytestmark = pytest.mark.process

SCRIPT = """
    import torch
    net = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    def validate():
        net.eval()
        {context}:
            net(torch.ones(2, 4))
        net.train()
    def main():
        for step in range(6):
            net(torch.ones(2, 4)).sum().backward()
            optimizer.step()
            validate()
    main()
"""


def last(folder, context):
    return watched(folder, SCRIPT.replace("{context}", context)).ranks[0].of("eval")[-1]


def test_the_callers_of_a_pass_are_noted_whether_or_not_it_records_gradients(tmp_path):
    found = last(tmp_path, "with torch.no_grad()")
    assert [line["function"] for line in found["lines"]] == ["validate", "main", "<module>"]
    assert [line["line"] for line in found["lines"]] == [8, 14, 15]
    assert (found["calls"], found["grad_calls"], found["at"]) == (6, 0, None)


def test_the_line_of_a_pass_that_records_gradients_is_noted_apart(tmp_path):
    found = last(tmp_path, "if True")
    assert (found["grad_calls"], found["at"]["line"]) == (6, 8)

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from perfdoctor.wire.events.ranks import InputSizeEvent
from tests.support.watched import together, watched

pytestmark = pytest.mark.process

SCRIPT = """
    import os
    import torch
    from torch import nn
    rank = int(os.environ.get("RANK", 0))
    if "RANK" in os.environ:
        torch.distributed.init_process_group("gloo")
    model = nn.Embedding(10, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(40):
        optimizer.zero_grad()
        model(torch.ones(8, 16 * (1 + rank), dtype=torch.long)).sum().backward()
        optimizer.step()
"""


def test_each_rank_tells_what_its_model_is_called_with(tmp_path):
    records = together(tmp_path, SCRIPT)
    for rank, elements in ((0, 128), (1, 256)):
        events = records.ranks[rank].of(InputSizeEvent)
        assert len(events) >= 4
        assert {event.elements for event in events} == {elements}


def test_a_process_alone_writes_nothing(tmp_path):
    assert watched(tmp_path, SCRIPT).ranks[0].of(InputSizeEvent) == []

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from perfdoctor.wire.events.repeated_reads import RepeatedReadEvent
from tests.support.watched import watched

pytestmark = pytest.mark.process

SCRIPT = """
    import io
    import itertools
    import json
    import pickle
    import time
    from pathlib import Path
    import numpy as np
    import torch

    Path("rows.json").write_text("[1, 2, 3]")
    Path("rows.txt").write_text("1 2 3\\n" * 40)
    with open("many.npy", "wb") as many:
        for step in range(16):
            np.save(many, np.ones(step))
    many, turns = open("many.npy", "rb"), itertools.count()
    np.save("table.npy", np.ones(8))
    torch.save(torch.ones(3), "weights.pt")
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)

    def read(step):
        {read}

    def train(steps):
        for step in range(steps):
            read(step)
            optimizer.zero_grad()
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()

    for reader in (json.load, np.load, torch.load):
        assert pickle.loads(pickle.dumps(reader)) is reader
    train(12)
    time.sleep(1.1)
    train(4)
"""


def reads(folder, read):
    """How often each file was read, by the last event of it, and the lines that did."""
    events = watched(folder, SCRIPT.replace("{read}", read)).ranks[0].of(RepeatedReadEvent)
    assert all(event.again_ns > 0 for event in events)
    last = {event.file: event for event in events}
    return {number: event.reads for number, event in last.items()}, [event.lines for event in last.values()]


@pytest.mark.parametrize(
    "read",
    [
        pytest.param('json.load(open("rows.json"))', id="json"),
        pytest.param('np.load(Path("table.npy"))', id="numpy"),
        pytest.param('torch.load("weights.pt")', id="torch"),
        pytest.param('np.loadtxt("rows.txt", skiprows=2)', id="text"),
    ],
)
def test_a_file_that_is_read_in_each_step_is_told_with_the_lines_that_read_it(tmp_path, read):
    found, (lines,) = reads(tmp_path, read)
    assert found == {1: 16}
    assert [line["function"] for line in lines] == ["read", "train", "<module>"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "read",
    [
        pytest.param('np.loadtxt("rows.txt", skiprows=next(turns))', id="another part each time"),
        pytest.param("np.load(many)", id="what follows in an open file"),
        pytest.param(
            'Path("rows.json").write_text(f"[{next(turns)}]"); time.sleep(0.02); json.load(open("rows.json"))',
            id="a file that was written in between",
        ),
        pytest.param('next(turns) or np.load("table.npy")', id="once"),
        pytest.param('json.load(io.StringIO("[1]"))', id="no file"),
    ],
)
def test_others_are_left_alone(tmp_path, read):
    assert reads(tmp_path, read) == ({}, [])


@pytest.mark.slow
def test_the_items_of_a_loader_are_left_to_others(tmp_path):
    script = """
        import numpy as np
        import torch

        class Items(torch.utils.data.Dataset):
            def __len__(self):
                return 32

            def __getitem__(self, index):
                return torch.from_numpy(np.load("table.npy"))

        np.save("table.npy", np.ones(4, dtype=np.float32))
        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
        for epoch in range(3):
            for x in torch.utils.data.DataLoader(Items(), batch_size=4):
                optimizer.zero_grad()
                model(x).sum().backward()
                optimizer.step()
    """
    assert watched(tmp_path, script).ranks[0].of(RepeatedReadEvent) == []

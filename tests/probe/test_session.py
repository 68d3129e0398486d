import pytest

pytest.importorskip("torch")

from perfdoctor.model.note import Note
from tests.support.watched import updates, watched

pytestmark = pytest.mark.process

TRAIN = """
    import os, sys, torch
    def train(steps):
        torch.set_num_threads(1)
        net = torch.nn.Linear(4, 1)
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(steps):
            net(torch.randn(8, 4)).mean().backward(); opt.step(); opt.zero_grad()
"""


def test_a_process_that_only_imports_torch_leaves_one_boot_line(tmp_path):
    records = watched(tmp_path, "import torch")
    assert [boot["event"] for boot in records.boots] == ["boot"]
    assert records.ranks == {}


def test_a_forked_child_that_trains_writes_files_of_its_own(tmp_path):
    records = watched(
        tmp_path,
        TRAIN
        + """
    train(3)
    if os.fork() == 0:
        train(5)
        sys.stdout.flush(); os._exit(0)
    os.wait()
    train(1)
    """,
    )
    files = sorted(path.name for path in records.path.glob("steps.*"))
    assert len(files) == 2
    assert files[1] == "steps.rank0.bin"
    assert len(updates(records)) == 5
    assert Note("several-processes", {"count": 2, "rank": 0}) in records.problems


def test_each_rank_has_files_of_its_own(tmp_path):
    records = watched(tmp_path, TRAIN + "\n    train(3)\n", RANK="2")
    assert list(records.ranks) == [2]
    assert len(updates(records, rank=2)) == 3


def test_a_clean_end_is_marked_and_totals_what_came_after_the_last_step(tmp_path):
    records = watched(tmp_path, TRAIN + "\n    train(3)\n    import time; time.sleep(0.05)\n")
    last = records.ranks[0].steps[-1]
    assert last["marker"] == 5
    assert last["end_ns"] - last["begin_ns"] >= 50_000_000
    assert records.ranks[0].of("end")[0]["broken"] == {}


def test_own_costs_are_calibrated(tmp_path):
    records = watched(tmp_path, TRAIN + "\n    train(1)\n")
    (cost,) = records.ranks[0].of("cost")
    assert cost["switch_ns"] > 0
    assert cost["row_ns"] > 0

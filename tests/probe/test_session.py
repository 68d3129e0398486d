import subprocess
import sys
import time

import pytest

pytest.importorskip("torch")

from perfdoctor.model.note import Note
from perfdoctor.runs import records as recorded
from tests.support.watched import prepared, updates, watched

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


@pytest.mark.shows("fork")
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


@pytest.mark.shows("exec")
def test_a_training_that_becomes_another_one_is_followed(tmp_path):
    records = watched(
        tmp_path,
        TRAIN
        + """
    if "again" in sys.argv:
        train(9)
    else:
        train(3)
        os.execv(sys.executable, [sys.executable, "script.py", "again"])
    """,
    )
    assert len(list(records.path.glob("steps.*"))) == 2
    assert len(updates(records)) == 9
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


@pytest.mark.shows("cost")
def test_own_costs_are_calibrated(tmp_path):
    records = watched(tmp_path, TRAIN + "\n    train(1)\n")
    (cost,) = records.ranks[0].of("cost")
    assert cost["switch_ns"] > 0
    assert cost["row_ns"] > 0


FULL = """
    import errno, os
    room, allocate = [ROOM], os.posix_fallocate
    def full(*args):
        room[0] -= 1
        if room[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return allocate(*args)
    os.posix_fallocate = full
"""


@pytest.mark.shows("disk-full")
@pytest.mark.parametrize("room", [0, 1])  # blocks of rows
def test_on_a_full_disk_the_script_goes_on_and_what_is_missing_is_told(tmp_path, room):
    train = "\n    train(3000)\n    print('trained', flush=True)\n"
    env = prepared(tmp_path, FULL.replace("ROOM", str(room)) + TRAIN + train)
    began_s = time.time()
    command = [sys.executable, "script.py"]
    done = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=True
    )
    assert (done.stdout, done.stderr) == ("trained\n", "")
    records = recorded.read(tmp_path / "run")
    (note,) = [problem for problem in records.problems if problem.slug.startswith("disk-full")]
    assert began_s - 1 <= note.values["since_epoch_s"] <= time.time()
    if room:
        steps = len(updates(records))
        assert 1000 < steps < 3000
        assert (note.slug, note.values["steps"]) == ("disk-full-after-steps", steps)
    else:
        assert note.slug == "disk-full-no-steps"
        assert records.problems == (note,)  # no file without a header beside it


MANY_LOADERS = """
    import os, torch
    from torch.utils.data import DataLoader, TensorDataset
    net = torch.nn.Linear(4, 1)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    def fold():
        for (x,) in DataLoader(TensorDataset(torch.randn(40, 4)), batch_size=4, shuffle=True):
            net(x).sum().backward(); opt.step(); opt.zero_grad()
    for _ in range(3): fold()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20): fold()
    assert len(os.listdir("/proc/self/fd")) <= before + 1, os.listdir("/proc/self/fd")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks /proc for open files")
def test_a_loader_for_each_fold_leaves_no_files_open(tmp_path):
    assert len(updates(watched(tmp_path, MANY_LOADERS))) == 230


def test_events_of_one_kind_leave_room_for_those_of_others(tmp_path):
    records = watched(
        tmp_path,
        TRAIN
        + """
    train(2)
    import gc
    from perfdoctor.probe.session import EVENTS_MAX
    from perfdoctor.wire.events.training import ZeroGradEvent
    (session,) = [each for each in gc.get_objects() if type(each).__name__ == "Session"]
    for calls in range(EVENTS_MAX + 10):
        session.write(ZeroGradEvent(calls=calls, seconds=0.0, at=None))
    """,
    )
    rank = records.ranks[0]
    assert len(rank.of("zeroing")) == 5_000
    assert len(rank.of("end")) == 1

import struct
import time

import numpy as np
import pytest

pytest.importorskip("torch")

from perfdoctor.probe.ranks import exchange
from perfdoctor.wire import files
from perfdoctor.wire.collective_rows import (
    ASYNC,
    COLLECTIVES,
    NOW,
    NOW_BYTE,
    OUTSIDE_GRAD_SYNC,
    UNKNOWN_GROUP,
)
from tests.support.watched import prepared, read, start_ranks, together, updates

pytestmark = [pytest.mark.clock, pytest.mark.process]

CALLS = """
    import time, torch, torch.distributed as dist
    from torch.distributed import all_reduce, init_process_group
    torch.set_num_threads(1); torch.manual_seed(0)
    init_process_group("gloo")
    rank = dist.get_rank()
    alone = [dist.new_group([0]), dist.new_group([1])][rank]
    dist.barrier()  # before anything trains: counted, not written
    net = torch.nn.Linear(8, 8)
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    ones, both = torch.ones(1000), torch.empty(2000)

    def step(between):
        net(torch.randn(4, 8)).mean().backward(); between(); opt.step(); opt.zero_grad()

    def gradients():
        for p in net.parameters():
            all_reduce(p.grad)
    step(gradients)                                                       # 0

    def handles():
        work = dist.all_reduce(ones, async_op=True)
        time.sleep(0.1)
        work.wait(); work.wait()
    step(handles)                                                         # 1

    step(lambda: dist.all_gather_into_tensor(both, ones))                 # 2
    step(lambda: dist.all_gather([ones, ones + 1], ones))                 # 3
    step(lambda: dist.all_reduce(ones, group=alone))                      # 4

    def message():
        if rank: dist.isend(ones, 0).wait()
        else: dist.irecv(ones, 1).wait()
    step(message)                                                         # 5

    def validated():
        net.eval()
        class Measured(torch.nn.Module):
            def __init__(self):
                super().__init__(); self.net = net
            def forward(self, x):
                dist.all_reduce(ones); return self.net(x)
        with torch.no_grad(): Measured().eval()(torch.randn(4, 8))
        net.train()
    step(validated)                                                       # 6

    def wrong():
        try:
            dist.all_reduce("a word")
        except TypeError as error:
            frames = error.__traceback__
            while frames:
                assert "/perfdoctor/probe/" not in frames.tb_frame.f_code.co_filename
                frames = frames.tb_next
    step(wrong)                                                           # 7
    step(lambda: dist.all_gather_object([None, None], {"rank": rank}))    # 8
    step(lambda: dist.barrier())                                          # 9

    class Inside(torch.nn.Module):
        def __init__(self):
            super().__init__(); self.net = net
        def forward(self, x):
            if rank: time.sleep(0.1)
            dist.all_reduce(ones); return self.net(x)
    inside = Inside()
    for _ in range(3):                                                    # 10, 11, 12
        inside(torch.randn(4, 8)).mean().backward(); opt.step(); opt.zero_grad()
    dist.destroy_process_group()
    time.sleep(0.5)  # torch 2.13 aborts a process that ends while gloo's threads still let go of the last calls
"""


@pytest.fixture(scope="module")
def calls(tmp_path_factory):
    return together(tmp_path_factory.mktemp("calls"), CALLS)


def of_step(records, step, rank=0):
    rows = records.ranks[rank].collectives
    return rows[rows["step"] == step]


def test_each_call_that_blocks_is_a_row_and_grad_sync(calls):
    rows = of_step(calls, 0)
    assert [(row["op"], row["flags"], row["bytes"], row["group"], row["ranks"]) for row in rows] == [
        (1, 0, 256, 0, 2),
        (1, 0, 32, 0, 2),
    ]
    assert (rows["wait_ns"] == rows["end_ns"] - rows["begin_ns"]).all()
    assert updates(calls)["grad_sync"][0] == rows["wait_ns"].sum()


def test_a_call_that_returns_at_once_lasts_until_it_was_waited_for(calls):
    (row,) = of_step(calls, 1)
    assert (row["op"], row["flags"], row["bytes"]) == (1, ASYNC, 4000)
    assert row["end_ns"] - row["begin_ns"] > LATE_NS > row["wait_ns"]
    assert updates(calls)["grad_sync"][1] == row["wait_ns"]


def test_a_call_that_is_made_of_another_is_one_row(calls):
    (row,) = of_step(calls, 2)
    assert (row["op"], row["bytes"]) == (2, 8000)


def test_of_gathered_shares_the_whole_counts(calls):
    (row,) = of_step(calls, 3)
    assert (row["op"], row["bytes"]) == (2, 8000)


def test_groups_are_numbered_and_told_with_their_ranks(calls):
    for rank in (0, 1):
        (row,) = of_step(calls, 4, rank)
        assert (row["group"], row["ranks"], row["sequence"]) == (1, 1, 0)
        default, alone = calls.ranks[rank].of("group")
        assert (default["number"], default["size"], default["ranks"], default["backend"]) == (
            0,
            2,
            None,
            "gloo",
        )
        assert (alone["number"], alone["size"], alone["ranks"]) == (1, 1, [rank])


def test_a_handle_whose_call_was_not_seen_is_waited_for_all_the_same(calls):
    (row,) = of_step(calls, 5)
    assert (row["op"], row["group"], row["bytes"]) == (7, UNKNOWN_GROUP, 0)
    assert updates(calls)["grad_sync"][5] == row["wait_ns"]


def test_what_validation_exchanges_stays_with_it(calls):
    (row,) = of_step(calls, 6)
    assert row["flags"] == OUTSIDE_GRAD_SYNC
    assert updates(calls)["grad_sync"][6] == 0
    assert updates(calls)["validation"][6] > row["wait_ns"]


def test_an_error_of_the_scripts_own_passes_and_turns_nothing_off(calls):
    assert [row["op"] for row in of_step(calls, 9)] == [6]


def test_objects_are_gathered_by_calls_that_are_seen(calls):
    assert [row["op"] for row in of_step(calls, 8)] == [2, 2]


def test_a_call_inside_a_forward_is_grad_sync_and_no_forward(calls):
    rows = updates(calls)[10:13]
    assert np.median(rows["grad_sync"]) > 0.8 * LATE_NS
    assert np.median(rows["forward"]) < 0.8 * LATE_NS
    assert (updates(calls, 1)[10:13]["forward"] > LATE_NS).all()


def test_a_call_has_the_same_number_in_both_ranks_from_the_first_on(calls):
    first, second = (calls.ranks[rank].collectives for rank in (0, 1))
    for name in ("op", "step", "sequence", "bytes"):
        assert list(first[name]) == list(second[name])
    assert [row["sequence"] for row in first if row["op"] == 6] == [1]


def test_what_recording_took_is_told(calls):
    told = calls.ranks[0].of("collectives")[-1]
    assert told["calls"] == len(calls.ranks[0].collectives)
    assert 0 < told["own_s"] < 0.1


LATE_NS = 100_000_000
FULLY_SHARDED = """
    import time, torch, torch.distributed as dist
    from torch.distributed.fsdp import fully_shard
    torch.set_num_threads(1); torch.manual_seed(0)
    dist.init_process_group("gloo")
    net = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(3)])
    for layer in net:
        fully_shard(layer)
    fully_shard(net)
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    for step in range(6):
        if dist.get_rank() and step > 2: time.sleep(0.1)
        net(torch.randn(4, 64)).mean().backward(); opt.step(); opt.zero_grad()
    dist.destroy_process_group()
    time.sleep(0.5)  # torch 2.13 aborts a process that ends while gloo's threads still let go of the last calls
"""


def test_a_fully_sharded_model_gathers_and_scatters_in_rows(tmp_path):
    pytest.importorskip("torch.distributed.fsdp._fully_shard")
    records = together(tmp_path, FULLY_SHARDED)
    rows = of_step(records, 5)
    gathered, scattered = rows[rows["op"] == 2], rows[rows["op"] == 3]
    assert (len(gathered), len(scattered)) == (6, 3)  # each layer forward and backward, and its gradients
    assert set(scattered["bytes"]) == {(64 * 64 + 64) * 4}
    steps = updates(records)
    assert int(steps["grad_sync"][5]) == int(rows["wait_ns"].sum())
    assert (steps["grad_sync"][3:] > 0.8 * LATE_NS).all()
    assert np.median(steps["forward"][3:]) < 0.8 * LATE_NS


def now(folder, rank):
    header = (folder / "run" / f"collectives.rank{rank}.bin").read_bytes()[:4096]
    return NOW.unpack_from(header, NOW_BYTE)


def test_a_rank_that_hangs_has_said_in_which_call(tmp_path):
    code = """
    import pathlib, time, torch, torch.distributed as dist
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    for step in range(9):
        if step == 5:
            pathlib.Path(f"there{dist.get_rank()}").touch()
            if dist.get_rank(): time.sleep(1000)
        net(torch.randn(4, 8)).mean().backward(); opt.step(); opt.zero_grad()
    """
    processes = start_ranks(tmp_path, prepared(tmp_path, code))
    deadline = time.monotonic() + 60
    hung = tmp_path / "run" / "collectives.rank0.bin"
    while time.monotonic() < deadline and not (
        (tmp_path / "there0").exists() and hung.exists() and now(tmp_path, 0)[1] == 5
    ):
        time.sleep(0.1)
    for process in processes:
        process.kill()
        process.wait()
    read(tmp_path)
    begin_ns, step, size, sequence, group, op, inside = now(tmp_path, 0)
    assert (step, size, sequence, group, op, inside) == (5, 288, 5, 0, 1, 1)
    assert begin_ns > 0
    assert now(tmp_path, 1)[-1] == 0


def test_the_header_leaves_the_place_of_the_call_free():
    header = files.header(COLLECTIVES, 0)
    assert header.index(b"\n") < NOW_BYTE
    assert struct.unpack_from("32s", header, NOW_BYTE)[0].strip() == b""


def test_of_a_long_run_the_same_steps_are_kept_in_all_ranks(monkeypatch):
    monkeypatch.setattr(exchange, "RAW_ROWS", 10)
    monkeypatch.setattr(exchange, "ROWS_PER_MERGE", 5)
    kept = []

    class Recorder:
        updates = 0

    class Rows:
        def add(self, *values):
            kept.append(values[4])

    class Unwritten(exchange.GradientSync):
        def _file(self, recorder):
            return Rows()

    recorder, watch = Recorder(), Unwritten(None, None)
    for recorder.updates in range(40):
        watch.add(recorder, (1, 0, 2, recorder.updates, 8), 0, 1, 1, 0)
    assert kept == [*range(10), *range(10, 20, 2), *range(20, 40, 4)]
    assert watch.calls == 40

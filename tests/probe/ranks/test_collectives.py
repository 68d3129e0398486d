import os
import subprocess

import pytest

pytest.importorskip("torch")

from tests.support.watched import TIMEOUT_S, prepared, read, start_ranks, watched

pytestmark = [pytest.mark.process, pytest.mark.slow]

# What a script could notice: the bits it computes, and what torch.compile makes of it.
NOTICES = """
    import torch, torch.distributed as dist
    from torch._dynamo.utils import counters
    from torch.nn.parallel import DistributedDataParallel as DDP
    torch.set_num_threads(1); torch.manual_seed(0)
    dist.init_process_group("gloo")

    def train(net, opt, kept=()):
        for step in range(6):
            loss = net(torch.randn(4, 16)).square().mean()
            loss.backward(); opt.step(); opt.zero_grad()
        bits = [float(p.detach().double().sum()).hex() for p in net.parameters()]
        print(loss.item().hex(), *bits)

    def layers():
        return torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.BatchNorm1d(16), torch.nn.Linear(16, 4))

    def counted():
        told = {name: dict(sorted(counters[name].items())) for name in ("frames", "stats")}
        breaks = sum(counters["graph_break"].values())
        torch._dynamo.reset(); counters.clear()
        print(told, breaks)

    for options in ({}, {"find_unused_parameters": True}, {"static_graph": True}, {"bucket_cap_mb": 0.001}):
        net = DDP(layers(), **options)
        train(net, torch.optim.SGD(net.parameters(), lr=0.1))
    for compiled in (torch.compile(DDP(layers()), backend="aot_eager"),
                     DDP(torch.compile(layers(), backend="eager", fullgraph=True))):
        train(compiled, torch.optim.SGD(compiled.parameters(), lr=0.1))
        counted()

    @torch.compile(backend="eager", fullgraph=True)
    def total(x):
        dist.all_reduce(x)
        return x + 1
    print(total(torch.ones(2)).tolist())
    counted()

    @torch.compile(backend="eager")
    def waited(x):
        work = dist.all_reduce(x + 1, async_op=True)
        work.wait()
        return x
    print(waited(torch.ones(2)).tolist())
    counted()

    print(dist.all_reduce.__name__, dist.all_reduce is dist.distributed_c10d.all_reduce, type(dist.Work).__name__)
    work = dist.all_reduce(torch.ones(1), async_op=True)
    print(type(work).__name__, isinstance(work, dist.Work), work.wait())
    dist.destroy_process_group()
"""


def printed(folder, env):
    processes = start_ranks(folder, env, stdout=subprocess.PIPE)
    try:
        said = [process.communicate(timeout=TIMEOUT_S)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0, 0]
    return said


def test_ranks_compute_the_same_bits_and_compile_the_same_graphs(tmp_path):
    env = prepared(tmp_path, NOTICES)
    bare = {name: value for name, value in env.items() if name not in ("PYTHONPATH", "PERFDOCTOR_RUN")}
    assert printed(tmp_path, env) == printed(tmp_path, bare)
    assert all(len(records.collectives) for records in read(tmp_path).ranks.values())


def test_a_process_that_trains_alone_loads_nothing_for_ranks(tmp_path):
    records = watched(
        tmp_path,
        """
    import sys, torch, torch.distributed as dist
    torch.nn.Linear(2, 2)(torch.ones(1, 2)).mean().backward()
    try:
        dist.barrier()
    except ValueError as error:
        assert "init_process_group" in str(error) or "initialized" in str(error), error
    ours = {name.rpartition(".")[2] for name in sys.modules if name.startswith("_perfdoctor.")}
    assert "collectives" in ours
    assert not ours & {"exchange", "gradients"}
    """,
    )
    assert records.ranks[0].collectives is None


def test_names_taken_before_the_group_was_made_are_watched_too(tmp_path):
    records = watched(
        tmp_path,
        """
    import os, torch
    from torch.distributed import all_reduce, init_process_group
    net = torch.nn.Linear(2, 2)
    init_process_group("gloo", init_method="file://" + __file__ + ".store", rank=0, world_size=1)
    net(torch.ones(1, 2)).mean().backward()
    all_reduce(torch.ones(3))
    """,
    )
    (row,) = records.ranks[0].collectives
    assert (row["op"], row["bytes"], row["ranks"]) == (1, 12, 1)


def test_a_forked_rank_writes_a_file_of_its_own(tmp_path):
    records = watched(
        tmp_path,
        """
    import os, torch, torch.distributed as dist
    torch.set_num_threads(1)
    def train(name):
        dist.init_process_group("gloo", init_method=f"file://{__file__}.{name}", rank=0, world_size=1)
        torch.nn.Linear(2, 2)(torch.ones(1, 2)).mean().backward()
        dist.all_reduce(torch.ones(3))
        dist.destroy_process_group()
    train("parent")
    child = os.fork()
    if not child:
        train("child")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    """,
    )
    files = sorted(file.name for file in records.path.glob("collectives.*.bin"))
    assert len(files) == 2
    assert files[-1] == "collectives.rank0.bin" or files[0] == "collectives.rank0.bin"


def test_ranks_of_one_host_without_environment_are_told_apart_by_their_group(tmp_path):
    code = """
    import sys, time, torch, torch.distributed as dist, torch.multiprocessing as processes
    def train(rank, place):
        dist.init_process_group("gloo", init_method="file://" + place, rank=rank, world_size=2)
        torch.nn.Linear(2, 2)(torch.ones(1, 2)).mean().backward()
        dist.all_reduce(torch.ones(3))
        dist.destroy_process_group()
        time.sleep(0.5)  # torch 2.13 aborts a process that ends while gloo's threads still let go of the last calls
    if __name__ == "__main__":
        processes.spawn(train, (__file__ + ".store",), nprocs=2)
    """
    records = watched(tmp_path, code)
    assert sorted(records.ranks) == [0, 1]
    for rank in (0, 1):
        (group,) = records.ranks[rank].of("process_group")
        assert group["job"]["rank"] == rank
        assert group["job"]["host"] == os.uname().nodename
        assert len(records.ranks[rank].collectives) == 1

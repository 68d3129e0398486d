import multiprocessing
import sys

import numpy as np
import pytest

pytest.importorskip("torch")

from tests.support.watched import seconds, updates, watched

pytestmark = [pytest.mark.clock, pytest.mark.process]

SCRIPT = """
    import time, torch
    from torch.utils.data import DataLoader, Dataset
    class Items(Dataset):
        def __len__(self): return 24
        def __getitem__(self, i):
            time.sleep(0.002)
            return torch.full((16,), float(i)), i % 2
    def collate(items):
        time.sleep(0.003)
        return torch.stack([x for x, _ in items]), torch.tensor([y for _, y in items])
    def main(**options):
        torch.set_num_threads(1)
        net = torch.nn.Linear(16, 2)
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        loader = DataLoader(Items(), batch_size=4, collate_fn=collate, **options)
        for _ in range(2):
            for x, y in loader:
                torch.nn.functional.cross_entropy(net(x), y).backward()
                opt.step(); opt.zero_grad()
"""


@pytest.mark.parametrize("start_method", [None, "fork", "spawn", "forkserver"])
def test_a_batch_costs_what_reading_and_collating_it_takes(tmp_path, start_method):
    options = "num_workers=0"
    if start_method:
        options = f"num_workers=2, multiprocessing_context={start_method!r}"
    records = watched(tmp_path, SCRIPT + f"\n    if __name__ == '__main__':\n        main({options})\n")
    rank = records.ranks[0]
    assert len(updates(records)) == 12
    rows = rank.loader
    batches = rows["batches"]  # a batch that was looked at closely is counted in the row of the next one
    assert batches.sum() == 12
    assert (rows["read_ns"] >= 8_000_000 * batches).all()
    assert (rows["collate_ns"] >= 3_000_000 * batches).all()
    assert rows["read_cpu_ns"].sum() < 8_000_000 * 12
    assert (rows["samples"] == 4 * batches).all()
    assert (rows["bytes"] == (4 * 16 * 4 + 4 * 8) * batches).all()
    assert (rows["loader"] == 1).all()
    assert set(rows["worker"]) == ({0, 1} if start_method else {-1})
    assert len(rank.of("epoch")) == 2
    assert len(rank.of("worker")) == (4 if start_method else 0)
    (built,) = rank.of("loader")
    assert (built["num_workers"], built["batch_size"]) == (2 if start_method else 0, 4)
    assert built["at"]["function"] == "main"
    assert built["collate"].endswith("main__.collate")
    assert built["start_method"] == (start_method or multiprocessing.get_all_start_methods()[0])


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel counts what a thread reads")
@pytest.mark.parametrize("workers", [0, 1])
def test_a_batch_is_told_what_it_reads_from_files_however_often_they_were_read_before(tmp_path, workers):
    records = watched(
        tmp_path,
        f"""
        import numpy as np, torch
        from torch.utils.data import DataLoader, Dataset
        np.zeros(1_000_000, np.uint8).tofile("long.raw")
        class Cuts(Dataset):
            def __len__(self): return 16
            def __getitem__(self, i): return torch.from_numpy(np.fromfile("long.raw", np.uint8)[i : i + 8])
        net = torch.nn.Linear(8, 1)
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        for x in DataLoader(Cuts(), batch_size=4, num_workers={workers}):
            net(x.float()).mean().backward(); opt.step(); opt.zero_grad()
        """,
    )
    rows = records.ranks[0].loader
    each = rows["file_bytes"] / rows["batches"]
    assert (each >= 4_000_000).all()
    assert (each < 4_100_000).any()  # the first may import modules


def test_without_workers_a_batch_is_waited_for_as_long_as_it_costs(tmp_path):
    records = watched(tmp_path, SCRIPT + "\n    main()\n")
    rows = updates(records)
    cost = records.ranks[0].loader
    prepared = (cost["read_ns"] + cost["collate_ns"]).sum() / 1e9
    first = records.ranks[0].steps["begin_ns"].min()
    waited = seconds(records.ranks[0].steps, "data_wait")
    assert rows["begin_ns"].min() >= first
    assert waited >= prepared
    assert list(rows["samples"][1:]) == [4] * 11


def test_an_epoch_knows_its_first_wait_apart_from_later_ones(tmp_path):
    records = watched(tmp_path, SCRIPT + "\n    main(num_workers=1)\n")
    epochs = records.ranks[0].of("epoch")
    ends = records.ranks[0].of("epoch_end")
    assert [epoch["index"] for epoch in epochs] == [1, 2]
    assert [end["batches"] for end in ends] == [6, 6]
    assert [epoch["items"] for epoch in epochs] == [24, 24]
    assert all(epoch["first_wait_ns"] >= 8_000_000 for epoch in epochs)


def test_stopping_the_workers_of_an_epoch_that_the_loop_left_is_waiting_for_data(tmp_path):
    left = (
        SCRIPT[: SCRIPT.index("        for _ in range(2)")]
        + """
        for epoch in range(3):
            batches = iter(loader)  # the one before stops its workers here
            for _ in range(4):
                x, y = next(batches)
                torch.nn.functional.cross_entropy(net(x), y).backward()
                opt.step(); opt.zero_grad()
    """
    )
    records = watched(tmp_path, left + "\n    main(num_workers=1)\n")
    epochs, stops = (records.ranks[0].of(name) for name in ("epoch", "workers_end"))
    assert [stop["workers"] for stop in stops] == [epoch["workers"] for epoch in epochs]
    later = updates(records)[4]  # the first of the second epoch
    assert later["data_wait"] >= stops[0]["wait_ns"] > 0


def test_an_epoch_that_the_loop_leaves_ends_with_its_last_batch(tmp_path):
    records = watched(
        tmp_path,
        """
        import torch
        from torch.utils.data import DataLoader, TensorDataset
        net = torch.nn.Linear(4, 1)
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        train, other = (DataLoader(TensorDataset(torch.randn(32, 4)), batch_size=8) for _ in "ab")
        for x, in train:
            net(x).mean().backward(); opt.step(); opt.zero_grad()
            for y, in other:
                break
        """,
    )
    ends = records.ranks[0].of("epoch_end")
    assert [(end["loader"], end["batches"]) for end in ends] == [(2, 1)] * 3 + [(1, 4)]
    assert all(end["end_wait_ns"] is None and end["last_ns"] < end["t_ns"] for end in ends[:3])
    assert ends[3]["end_wait_ns"] >= 0


def test_an_iterator_still_in_use_counts_on_while_its_loader_is_iterated_anew(tmp_path):
    records = watched(
        tmp_path,
        """
        import torch
        from torch.utils.data import DataLoader, TensorDataset
        net = torch.nn.Linear(4, 1)
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        loader = DataLoader(TensorDataset(torch.randn(64, 4)), batch_size=8)
        def endless():
            while True:
                yield from loader
        batches = endless()
        for step in range(16):
            x, = next(batches)
            net(x).mean().backward(); opt.step(); opt.zero_grad()
            if step % 4 == 3:
                for number, (x,) in enumerate(loader):
                    if number == 1:
                        break
        left = iter(loader); next(left); next(left); next(left)
        left = iter(loader); next(left)
        """,
    )
    ends = records.ranks[0].of("epoch_end")
    whole = [end["index"] for end in ends if end["end_wait_ns"] is not None]
    assert (whole, [end["batches"] for end in ends]) == ([1], [2, 8, 2, 2, 2, 3])


def test_an_epoch_that_was_left_ends_with_the_first_batch_of_a_loader_made_anew(tmp_path):
    records = watched(
        tmp_path,
        """
        import torch
        from torch.utils.data import DataLoader, TensorDataset
        net = torch.nn.Linear(4, 1)
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        data = TensorDataset(torch.randn(64, 4))
        for _ in range(4):
            batches = iter(DataLoader(data, batch_size=8))  # beside the old one, which goes afterwards
            for _ in range(3):
                x, = next(batches)
                net(x).mean().backward(); opt.step(); opt.zero_grad()
        """,
    )
    ends = records.ranks[0].of("epoch_end")
    assert [(end["loader"], end["batches"]) for end in ends] == [(1, 3), (2, 3), (3, 3)]


def test_validation_batches_do_not_count_as_training_samples(tmp_path):
    records = watched(
        tmp_path,
        """
        import torch
        from torch.utils.data import DataLoader, TensorDataset
        net = torch.nn.Linear(4, 1)
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        data = TensorDataset(torch.randn(32, 4))
        train, valid = DataLoader(data, batch_size=8), DataLoader(data, batch_size=16)
        for _ in range(3):
            net.train()
            for x, in train:
                net(x).mean().backward(); opt.step(); opt.zero_grad()
            net.eval()
            with torch.no_grad():
                for x, in valid: net(x)
        """,
    )
    rows = records.ranks[0].steps
    assert int(rows["samples"].sum()) == 96
    assert len(updates(records)) == 12
    assert np.all(updates(records)["samples"][1:] == 8)


NESTED = """
    import torch
    from torch.utils.data import DataLoader, IterableDataset, TensorDataset
    class Through(IterableDataset):
        def __iter__(self):
            yield from DataLoader(TensorDataset(torch.randn(48, 4)), batch_size=4)
    net = torch.nn.Linear(4, 1)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(2):
        for (x,) in DataLoader(Through(), batch_size=None):
            net(x).sum().backward(); opt.step(); opt.zero_grad()
"""


def test_batches_of_a_loader_within_another_one_are_its_work(tmp_path):
    records = watched(tmp_path, NESTED)
    steps = updates(records)
    assert len(steps) == 24
    assert (steps["batches"][1:] == 1).all()
    assert (steps["samples"][1:] == 4).all()
    assert len(records.ranks[0].of("epoch")) == 2


PREFETCHED = """
    import queue, threading, time, torch
    from torch.utils.data import DataLoader, Dataset
    class Items(Dataset):
        def __len__(self): return 48
        def __getitem__(self, i):
            if i == 8: ready.wait(60)
            return torch.ones(4)
    class Net(torch.nn.Linear):
        def forward(self, x):
            ready.set()
            time.sleep(0.05)  # the batch that was waited for comes in here
            return super().forward(x)
    net = Net(4, 1)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    ready, batches = threading.Event(), queue.Queue()
    def fetch():
        for batch in DataLoader(Items(), batch_size=4):
            batches.put(batch)
        batches.put(None)
    thread = threading.Thread(target=fetch)
    thread.start()
    while (x := batches.get()) is not None:
        net(x).sum().backward(); opt.step(); opt.zero_grad()
    thread.join()
"""


def test_a_thread_that_fetches_ahead_leaves_the_phases_of_the_one_that_trains_alone(tmp_path):
    records = watched(tmp_path, PREFETCHED)
    assert len(updates(records)) == 12
    assert (updates(records)["calls"][1:] == 1).all()


def test_batches_that_answer_in_unusual_ways_are_waited_for_all_the_same(tmp_path):
    records = watched(
        tmp_path,
        """
        import collections, torch
        from torch.utils.data import DataLoader
        class Row:
            def __init__(self, **names): self.names = names
            def __getattr__(self, name): return self.__dict__["names"][name]
        class Batch(collections.UserDict): pass
        nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
        batches = [Row(x=1), nested, [nested], Batch(x=torch.ones(3, 4)), torch.ones(4, 4)]
        net = torch.nn.Linear(4, 1)
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(2):
            for batch in DataLoader(batches, batch_size=None, collate_fn=lambda batch: batch):
                net(torch.ones(2, 4)).sum().backward(); opt.step(); opt.zero_grad()
        """,
    )
    rows = updates(records)
    assert len(rows) == 10
    assert (rows["data_wait"][1:] > 0).all()
    assert list(rows["samples"][5:]) == [0, 2, 2, 3, 4]

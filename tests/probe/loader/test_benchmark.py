from __future__ import annotations

import itertools
import os
import time
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader, Dataset, IterableDataset

from perfdoctor.probe.loader import benchmark
from perfdoctor.probe.loader.benchmark import Indices, Loading

pytestmark = pytest.mark.process


class Items(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        time.sleep(0.0005)
        return torch.full((4,), float(index))


class Once(IterableDataset):
    def __init__(self):
        self.left = iter([torch.zeros(4)] * 40)

    def __iter__(self):
        return self.left


class Told(list):
    """The events of a measurement."""

    def tell(self, event):
        self.append({"event": event.event, **event.fields()})

    def of(self, event, key="workers"):
        return [entry.get(key) for entry in self if entry["event"] == event]

    def kinds(self, workers):
        return [
            entry["kind"]
            for entry in self
            if entry["event"] == "loading_stretch" and entry["workers"] == workers
        ]


def measured(loader, workers=(), seconds=1.0, **options):
    told = Told()
    Loading(
        loader,
        torch,
        {"seconds": seconds, "workers": list(workers), **options},
        told.tell,
        lambda words: None,
    ).run()
    return told


def test_indices_are_fresh_until_the_limit_and_then_the_same_again():
    indices = Indices([[1], [2], [3], [4]])
    indices.begin(2)
    given = iter(indices)
    assert [next(given) for _ in range(3)] == [[1], [2], [1]]
    assert indices.repeating
    indices.begin(1)
    given = iter(indices)
    assert [next(given) for _ in range(2)] == [[3], [3]]
    assert not indices.exhausted


def test_only_fresh_indices_take_the_samplers_time():
    def slow():
        for index in range(4):
            time.sleep(0.01)
            yield [index]

    indices = Indices(slow())
    indices.begin(2)
    list(itertools.islice(indices, 6))
    assert indices.draw_costs()["draw_s"] >= 0.02
    indices.reset()
    indices.again()
    list(itertools.islice(indices, 6))
    assert indices.draw_costs() == {"draw_s": 0.0, "draw_cpu_s": 0.0}


def test_when_the_sampler_has_nothing_more_everything_drawn_is_given_again():
    indices = Indices(iter([[1], [2]]))
    indices.begin(9)
    assert list(itertools.islice(indices, 4)) == [[1], [2], [1], [2]]
    assert indices.exhausted
    indices.begin(9)
    assert list(itertools.islice(indices, 3)) == [[1], [2], [1]]


def test_a_list_that_the_sampler_refills_is_kept_as_it_was():
    def refilled():
        batch = []
        for index in range(3):
            batch.clear()
            batch.append(index)
            yield batch

    indices = Indices(refilled())
    indices.begin(3)
    assert list(itertools.islice(indices, 6)) == [[0], [1], [2]] * 2


def test_each_setting_is_measured_cold_warm_and_without_reading():
    told = measured(DataLoader(Items(), batch_size=4), [1])
    assert told.kinds(0) == told.kinds(1) == ["cold", "warm", "synthetic"]
    assert told.of("loading_failed") == []
    (size,) = {entry["samples"] for entry in told if entry["event"] == "loading_stretch"}
    assert size == 4


class Named(Items):
    def __getitem__(self, index):
        return {"name": str(index), "x": super().__getitem__(index)}


def without_names(samples):
    for sample in samples:
        sample.pop("name")
    return torch.stack([sample["x"] for sample in samples])


def test_a_collate_function_that_changes_its_samples_gets_them_whole():
    told = measured(DataLoader(Named(), batch_size=4, collate_fn=without_names), [1], seconds=3.0)
    assert told.of("loading_failed") == []
    assert told.kinds(0) == told.kinds(1) == ["cold", "warm", "synthetic"]


class Used:
    def __init__(self, value):
        self.left = [value]


class Usable(Items):
    def __getitem__(self, index):
        return Used(super().__getitem__(index))


def using(samples):
    return torch.stack([sample.left.pop() for sample in samples])


def test_samples_that_can_be_collated_only_once_are_no_error_of_the_script():
    told = measured(DataLoader(Usable(), batch_size=4, collate_fn=using), [1])
    assert told.of("loading_failed") == []
    assert told.kinds(1) == ["cold", "warm"]


def test_the_scripts_loader_is_left_as_it_was():
    loader = DataLoader(Items(), batch_size=4)
    before = dict(vars(loader))
    measured(loader, [0])
    assert vars(loader) == before


class OpenedOnce(Items):
    """Opens what it reads from at the first item, as database clients are to be used."""

    opened_by = None

    def __getitem__(self, index):
        self.opened_by = self.opened_by or os.getpid()
        if self.opened_by != os.getpid():
            raise RuntimeError("connection used in a forked process")
        return super().__getitem__(index)


@pytest.mark.parametrize("script_workers", [0, 2])
def test_workers_inherit_nothing_that_measuring_without_workers_opened(script_workers):
    told = measured(DataLoader(OpenedOnce(), batch_size=4, num_workers=script_workers), [1, 2], seconds=4.0)
    assert told.of("loading_failed") == []
    assert all("warm" in told.kinds(workers) for workers in (0, 1, 2))


class Failing(Items):
    def __getitem__(self, index):
        raise KeyError("no label")


def test_an_error_of_the_dataset_ends_its_setting_and_the_next_one_is_tried():
    told = measured(DataLoader(Failing(), batch_size=4), [1])
    assert told.of("loading_failed") == [1, 0]
    assert all("KeyError" in words for words in told.of("loading_failed", "error"))
    assert all(place["file"] == os.path.abspath(__file__) for place in told.of("loading_failed", "at"))


class Fragile(Items):
    def __getitem__(self, index):
        if torch.utils.data.get_worker_info() is not None:
            os._exit(3)
        return super().__getitem__(index)


def test_a_worker_that_dies_is_told_and_nothing_hangs():
    told = measured(DataLoader(Fragile(), batch_size=4), [1])
    assert told.of("loading_failed") == [1]
    assert told.kinds(0)[:2] == ["cold", "warm"]


def test_a_dataset_that_is_gone_after_one_epoch_keeps_what_was_measured():
    told = measured(DataLoader(Once(), batch_size=4), [0])
    assert told.kinds(0) == ["cold"]
    assert told.of("loading_failed", "first") == [False]


def test_a_loader_without_batches_is_told():
    told = measured(DataLoader(Items(), batch_size=100, drop_last=True), [0])
    assert told.of("loading_failed", "first") == [True]


def settings(loader, **options):
    return Loading(loader, torch, {"seconds": 1.0, **options}, Told().tell, lambda words: None)._settings()


def test_the_scripts_own_number_comes_early_and_doubles_go_up_to_the_cores():
    assert settings(DataLoader(Items(), num_workers=3), cores=6) == [3, 1, 2, 4, 6, 0]
    assert settings(DataLoader(Items()), cores=8, ranks=4) == [1, 2, 0]
    assert settings(DataLoader(Items()), cores=8, workers=[5, 2]) == [2, 5, 0]
    assert settings(DataLoader(Once()), cores=2) == [1, 2, 0]


@pytest.mark.parametrize(
    ("memory", "shared", "reason"),
    [(1e9, 1e9, None), (100.0, 1e9, "memory"), (1e9, 100.0, "shared memory")],
)
def test_settings_that_would_not_fit_are_not_tried(monkeypatch, memory, shared, reason):
    run = Loading(DataLoader(Items()), torch, {"seconds": 9.0}, Told().tell, lambda words: None)
    run._worker_bytes = run._batch_bytes = 100.0
    monkeypatch.setattr(benchmark.batch_costs, "free_memory_bytes", lambda: memory)
    monkeypatch.setattr(benchmark.batch_costs, "free_shared_bytes", lambda: shared)
    assert run._reason_to_stop(4) == reason


def test_a_curve_that_two_settings_did_not_raise_is_flat():
    run = Loading(DataLoader(Items()), torch, {"seconds": 9.0}, Told().tell, lambda words: None)
    run._rates = {0: 10.0, 1: 40.0, 2: 41.0, 4: 40.0}
    assert run._reason_to_stop(8) == "flat"
    run._rates[4] = 60.0
    assert run._reason_to_stop(8) is None


def test_past_the_cores_only_what_waits_goes_on():
    run = Loading(DataLoader(Items()), torch, {"seconds": 9.0, "cores": 2}, Told().tell, lambda words: None)
    run._rates, run._used = {1: 10.0, 2: 20.0}, {2: 0.2}
    assert run._beyond([0]) == [4]
    assert run._beyond([1, 0]) == run._beyond([]) == []
    run._used[2] = 1.9
    assert run._beyond([0]) == []
    run._rates, run._used = {2: 20.0, 8: 80.0}, {8: 0.1}
    assert run._beyond([0]) == []


@pytest.mark.parametrize("batch_s", [0.01, 0.3, 2.0])
@pytest.mark.shows("budgets")
def test_all_measurements_of_a_loader_together_keep_to_their_seconds(monkeypatch, batch_s):
    """But for the batches that are under way when the time is over."""
    now = [100.0]

    def clock():
        now[0] += 0.001  # what is there already costs no more than that
        return now[0]

    monkeypatch.setattr(benchmark, "time", SimpleNamespace(monotonic=clock))
    monkeypatch.setattr(benchmark.batch_costs, "clock", clock)

    class Slow(Items):
        def __getitem__(self, index):
            now[0] += batch_s / 4
            return torch.full((4,), float(index))

    told = measured(DataLoader(Slow(), batch_size=4), [0], seconds=20.0)
    assert told.kinds(0)[:2] == ["cold", "warm"]
    assert 10.0 <= now[0] - 100.0 <= 20.0 + 2 * batch_s

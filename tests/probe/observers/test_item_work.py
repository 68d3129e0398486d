from __future__ import annotations

import pytest

pytest.importorskip("torch")

from perfdoctor.wire.events.item_work import ItemWorkEvent
from tests.support.watched import watched

pytestmark = pytest.mark.process

SCRIPT = """
    import json
    import random
    import sys
    import torch
    from torch.utils.data import DataLoader, Dataset, IterableDataset

    json.dump({"mean": 2.0}, open("stats.json", "w"))
    BEFORE = None

    def build(size):
        return [number * number for number in range(size)]

    def wait():
        return True

    def draw(size):
        return [random.random() for _ in range(size)]

    class Items(Dataset):
        def __len__(self):
            return 2048

        def __getitem__(self, index):
            squares = build(50)
            noise = draw(4)
            done = wait()
            with open("stats.json") as file:
                stats = json.load(file)
            return torch.ones(4) * index * stats["mean"] * squares[1] + noise[0]

    class Stream(IterableDataset):
        def __iter__(self):
            for index in range(2048):
                squares = build(50)
                yield torch.ones(4) * index * squares[1]

    sys.setprofile(BEFORE)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in DataLoader(Items(), batch_size=8, num_workers=0):
        optimizer.zero_grad()
        model(batch).sum().backward()
        assert sys.getprofile() is BEFORE
        optimizer.step()
"""


def last(records):
    return records.ranks[0].of(ItemWorkEvent)[-1]


def functions(event):
    return {entry["at"]["function"]: entry for entry in event.functions}


def calls(event):
    return {(entry["at"]["line"], entry["callee"]): entry for entry in event.calls}


def test_values_and_calls_are_compared_from_item_to_item(tmp_path):
    seen = last(watched(tmp_path, SCRIPT))
    assert seen.items == 24
    item = functions(seen)["__getitem__"]
    assert (item["at"]["line"], item["ends"]) == (24, 24)
    assert {"squares", "stats", "file"} <= item["same"].keys()
    assert {"index", "noise"} <= set(item["varied"])
    loads = calls(seen)[29, "load"]
    assert (loads["module"], loads["compared"], loads["repeated"], loads["arguments"]) == ("json", 24, 23, 1)
    assert calls(seen)[25, "build"]["repeated"] == 23
    # what a call gives that is made for something else it does is no result to compare
    assert "done" in item["plain"]
    assert calls(seen)[27, "wait"]["compared"] == 0


def test_arguments_that_come_again_are_told_by_how_much_later(tmp_path):
    """Of 24 items in order, 8 are prepared at a time: with parts of 2 and of 16, what comes again is near or far."""
    script = SCRIPT.replace("build(50)\n            noise", "build(index // 2 % 8 + 2)\n            noise")
    seen = calls(last(watched(tmp_path, script)))[25, "build"]
    assert (seen["compared"], seen["arguments"], seen["repeated"], seen["far"]) == (24, 4, 20, 8)


@pytest.mark.slow
def test_equal_arguments_with_other_results_are_no_repetition(tmp_path):
    draws = calls(last(watched(tmp_path, SCRIPT)))[26, "draw"]
    assert (draws["repeated"], draws["differed"]) == (0, 23)


def test_workers_write_what_they_saw(tmp_path):
    events = (
        watched(tmp_path, SCRIPT.replace("num_workers=0", "num_workers=2").replace("2048", "96"))
        .ranks[0]
        .of(ItemWorkEvent)
    )
    workers = {event.pid: event for event in events}
    assert len(workers) == 2
    # each worker prepares six batches: the second and the fourth are looked at
    assert [(event.items, functions(event)["__getitem__"]["ends"]) for event in workers.values()] == [
        (16, 16)
    ] * 2


def test_of_an_iterable_dataset_each_item_is_an_end(tmp_path):
    seen = last(watched(tmp_path, SCRIPT.replace("DataLoader(Items()", "DataLoader(Stream()")))
    stream = functions(seen)["__iter__"]
    assert stream["ends"] == 24
    assert "squares" in stream["same"]
    assert "index" in stream["varied"]


@pytest.mark.slow
@pytest.mark.shows("other-tools")
def test_a_profile_function_of_the_scripts_stays_and_nothing_is_looked_at(tmp_path):
    own = SCRIPT.replace("BEFORE = None", "BEFORE = lambda frame, event, arg: None")
    assert watched(tmp_path, own).ranks[0].of(ItemWorkEvent) == []


def test_batches_that_were_looked_at_are_counted_and_not_timed(tmp_path):
    rows = watched(tmp_path, SCRIPT.replace("2048", "768")).ranks[0].loader
    assert rows is not None
    assert rows["batches"][:65].tolist() == [1] * 63 + [2, 1]  # the 64th was looked at


HOLDS = """
    import gc
    import sys
    import weakref
    import torch
    from torch.utils.data import DataLoader, Dataset, IterableDataset

    class Shard:
        pass

    class Items(Dataset):
        def __len__(self):
            return 640

        def __getitem__(self, index):
            value = torch.full((4,), float(index))
            item = locals()
            del item["self"]
            return item

    class Stream(IterableDataset):
        def __iter__(self):
            for index in range(640):
                if index == 4 * 63:
                    shard = Shard()
                    alive = weakref.ref(shard)
                if index == 4 * 70:
                    del shard
                    gc.collect()
                    assert alive() is None
                yield {"value": torch.full((4,), float(index)), "index": index}

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    for batch in DataLoader(Items(), batch_size=4, num_workers=0):
        assert sorted(batch) == ["index", "value"]
        optimizer.zero_grad()
        model(batch["value"]).sum().backward()
        optimizer.step()
"""


@pytest.mark.slow
@pytest.mark.parametrize("dataset", ["Items()", "Stream()"])
def test_what_the_script_holds_of_its_locals_stays_and_nothing_is_kept_alive(tmp_path, dataset):
    seen = last(watched(tmp_path, HOLDS.replace("DataLoader(Items()", f"DataLoader({dataset}")))
    assert all(function["ends"] for function in seen.functions)

from __future__ import annotations

from collections import defaultdict

import pytest

pytest.importorskip("torch")

from perfdoctor.probe.observers.item_repeats import EPOCHS, ITEMS, LOADERS_MAX, RANKS, chosen
from perfdoctor.wire.events.item_repeats import ItemRepeatsEvent
from perfdoctor.wire.events.loaders import LoaderEvent
from tests.support.watched import watched

pytestmark = pytest.mark.process

SCRIPT = """
    import random
    import torch
    from torch.utils.data import DataLoader, Dataset, IterableDataset

    class Items(Dataset):
        def __len__(self):
            return 96

        def __getitem__(self, index):
            return torch.full((4,), float(index)), index

    class Augmented(Items):
        def __getitem__(self, index):
            x, y = super().__getitem__(index)
            return (x.flip(0) if random.random() < 0.5 else x + 1), y

    class Batches(Items):
        def __getitems__(self, indices):
            return [self[index] for index in indices]

    class Stream(IterableDataset):
        def __iter__(self):
            return iter([(torch.ones(4), index) for index in range(96)])

    random.seed(0)
    if __name__ == "__main__":
        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
        loader = DataLoader(Items(), batch_size=8, shuffle=True)
        for epoch in range(6):
            for x, y in loader:
                optimizer.zero_grad()
                model(x).sum().backward()
                optimizer.step()
        assert random.random() == random.Random(0).random()
"""
PLAIN = "DataLoader(Items(), batch_size=8, shuffle=True)"


def looks(folder, loader=PLAIN, script=SCRIPT):
    """The checksums of each item that was looked at, in their order, and the processes that wrote them."""
    events = watched(folder, script.replace(PLAIN, loader)).ranks[0].of(ItemRepeatsEvent)
    assert {event.loader for event in events} <= {1}
    found = defaultdict(list)
    for event in events:
        for index, checksum in zip(event.indices, event.checksums, strict=True):
            found[index].append(checksum)
    return dict(found), {event.pid for event in events}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "processes"),
    [
        pytest.param("", 1, id="in the training process"),
        pytest.param(", num_workers=2, persistent_workers=True", 2, id="in workers that live on"),
        pytest.param(", num_workers=2", 2 * EPOCHS, id="in new workers for each epoch"),
    ],
)
def test_the_same_items_are_looked_at_in_each_of_the_first_epochs(tmp_path, options, processes):
    found, pids = looks(tmp_path, f"DataLoader(Items(), batch_size=8, shuffle=True{options})")
    assert sorted(found) == sorted(chosen(96))
    assert {len(sums) for sums in found.values()} == {EPOCHS}
    assert {len(set(sums)) for sums in found.values()} == {1}
    assert len({sums[0] for sums in found.values()}) == ITEMS
    assert len(pids) == processes


def test_items_that_draw_random_numbers_differ(tmp_path):
    script = SCRIPT.replace("assert random", "# assert random")
    found, _ = looks(tmp_path, "DataLoader(Augmented(), batch_size=8, num_workers=2)", script)
    assert sum(len(set(sums)) > 1 for sums in found.values()) > ITEMS / 2


@pytest.mark.parametrize(
    "loader",
    [
        pytest.param("DataLoader(Items(), batch_size=None, shuffle=True)", id="single items"),
        pytest.param("DataLoader(Batches(), batch_size=8, shuffle=True)", id="batches of items"),
    ],
)
def test_items_are_found_however_they_are_read(tmp_path, loader):
    found, _ = looks(tmp_path, loader)
    assert sorted(found) == sorted(chosen(96))
    assert {len(set(sums)) for sums in found.values()} == {1}


@pytest.mark.slow
@pytest.mark.parametrize(
    "loader",
    [
        pytest.param("DataLoader(Stream(), batch_size=8)", id="a stream has no items"),
        pytest.param(
            "DataLoader(Items(), batch_size=8, collate_fn=lambda items: (torch.ones(8, 4), None),"
            " sampler=[str(index) for index in range(96)])",
            id="an index that is no number",
        ),
    ],
)
def test_others_are_left_alone(tmp_path, loader):
    script = SCRIPT.replace("float(index)", "1.0")
    assert looks(tmp_path, loader, script)[0] == {}


@pytest.mark.slow
def test_an_item_that_is_drawn_again_and_again_is_not_looked_at_each_time(tmp_path):
    index = chosen(96)[0]
    again = f"type('Again', (RandomSampler,), {{'__iter__': lambda self: iter([{index}] * 768)}})(items)"
    script = SCRIPT.replace("Dataset, Iter", "Dataset, RandomSampler, Iter").replace(PLAIN, "PLAIN")
    script = script.replace("loader = PLAIN", f"items = Items(); loader = {PLAIN}")
    found, _ = looks(tmp_path, f"DataLoader(items, batch_size=8, sampler={again})", script)
    assert list(found) == [index]
    assert len(found[index]) <= ITEMS * EPOCHS


def test_several_ranks_look_at_more_since_each_gets_a_part(monkeypatch):
    assert len(chosen(20)) == 20
    assert chosen(5000) == chosen(5000)
    for world, ranks in ((1, 1), (4, 4), (99, RANKS)):
        monkeypatch.setenv("WORLD_SIZE", str(world))
        assert len(set(chosen(5000))) == ITEMS * ranks


def test_of_loaders_that_are_made_for_each_client_and_round_the_first_are_looked_at(tmp_path):
    anew = "for epoch in range(70):\n            loader = DataLoader(Part(epoch % 2), batch_size=8, shuffle=True)"
    script = SCRIPT.replace("for epoch in range(6):", anew).replace(f"loader = {PLAIN}", "Part = PART")
    part = "type('Part', (Items,), {'__init__': lambda self, part: setattr(self, 'part', part)})"
    rank = watched(tmp_path, script.replace("PART", part)).ranks[0]
    made = rank.of(LoaderEvent)
    assert len(made) == 70
    assert {event.contents for event in made[::2]} == {made[0].contents}
    assert {event.contents for event in made[1::2]} == {made[1].contents}
    assert made[0].contents not in {None, made[1].contents}
    assert {event.loader for event in rank.of(ItemRepeatsEvent)} == set(range(1, LOADERS_MAX + 1))

from __future__ import annotations

import pytest

from perfdoctor.facts.ranks.dealing import dealing_lines
from perfdoctor.facts.user_source.parse import Sources
from tests.support.records import source_of


def lines(text):
    """The numbers of the lines that deal, in the order in which they are named."""
    return [at.line for at in dealing_lines(["/home/me/train.py"], Sources(source_of(train=text)))]


@pytest.mark.parametrize(
    "line",
    [
        "mine = batches[rank * each : (rank + 1) * each]",
        "mine = batches[dist.get_rank() :: world]",
        "return order[self.local_rank * n : self.local_rank * n + n]",
        "mine = range(rank * each, (rank + 1) * each)",
        "mine = list(range(rank, len(order), world))",
        "mine = [row for row in order if row.index % world == rank]",
        "mine = np.array_split(order, world)[rank]",
        "mine = list(islice(order, dist.get_rank(), None, world))",
        "mine = order.reshape(world, -1)[rank]",
        "sampler = DistributedSampler(data, shuffle=True)",
        "data = data.shard(num_shards=world, index=rank)",
        "data = split_dataset_by_node(data, rank=rank, world_size=world)",
    ],
)
def test_a_part_of_the_data_for_each_rank_is_dealt(line):
    assert lines(f"def part(order, rank, world):\n    {line}\n") == [2]


@pytest.mark.parametrize(
    "line",
    ["low = (u * s)[:lora_rank]", "for i in range(rank): basis.append(v[i])", "low = v[:, :rank] @ s[:rank]"],
)
def test_the_rank_of_a_matrix_is_not_that_of_a_process(line):
    train = "def main():\n    rank, world = dist.get_rank(), dist.get_world_size()\n"
    sampler = "    sampler = DistributedSampler(texts)\n"
    assert lines(f"def adapter(weight, rank, lora_rank):\n    {line}\n{train}{sampler}") == [5]


def test_a_method_may_know_its_rank_from_another_one_of_its_class():
    made = "    def __init__(self, dp_rank):\n        self.rank = dp_rank\n"
    walked = "    def __iter__(self):\n        return iter(self.rows[self.rank :: self.n])\n"
    assert lines(f"class Part:\n{made}{walked}") == [5]


def test_data_that_a_function_for_validation_deals_are_not_trained_on():
    train = "def train_dataloader(self):\n    return DataLoader(self.rows, sampler=DistributedSampler(self.rows))\n"
    assert lines(train + train.replace("train_", "val_")) == [2]


@pytest.mark.parametrize(
    "line",
    [
        "device = devices[rank]",
        "numbers = range(len(order))",
        "if step % 100 == 0 and rank == 0: print(step)",
        "model = DistributedDataParallel(model, device_ids=[rank])",
        "head = batches[:frank]",
        "valid_set = batches[rank::world]",
        "print(losses[-1], rank)",
    ],
)
def test_other_uses_of_a_rank_deal_nothing(line):
    assert lines(line) == []


def test_pieces_come_before_what_is_dealt_in_turn():
    text = "a = rows[rank::world]\nb = DistributedSampler(a)\nc = rows[rank * n : rank * n + n]\n"
    assert lines(text) == [3, 1]

from __future__ import annotations

import threading

import pytest

torch = pytest.importorskip("torch")

from perfdoctor.probe.loader.dataset_contents import DatasetContents


class Data(torch.utils.data.Dataset):
    def __init__(self, rows, **more):
        self.rows = rows
        vars(self).update(more)


def test_data_sets_that_hold_the_same_are_one():
    contents, rows = DatasetContents(torch.utils.data.Dataset), torch.arange(60.0)
    first = contents.of(Data(rows))
    assert first is not None
    assert contents.of(Data(rows.clone())) == first
    assert contents.of(Data(rows + 1)) != first
    assert contents.of([1, 2, 3]) == contents.of([1, 2, 3]) != contents.of([1, 2, 4])


def test_what_a_data_set_keeps_while_it_is_used_makes_it_no_other_one():
    contents, data = DatasetContents(torch.utils.data.Dataset), Data([1, 2, 3], kept={})
    first = contents.of(data)
    data.kept[1] = "read"
    assert contents.of(data) == first


def test_parts_of_one_data_set_differ():
    contents, data = DatasetContents(torch.utils.data.Dataset), Data([1, 2, 3])
    halves = [torch.utils.data.Subset(data, part) for part in ([0, 1], [2], [0, 1])]
    one, other, again = map(contents.of, halves)
    assert one == again != other


def test_what_cannot_be_read_tells_nothing():
    contents, data = DatasetContents(torch.utils.data.Dataset), Data([1], lock=threading.Lock())
    assert contents.of(data) is None
    assert contents.of(data) is None

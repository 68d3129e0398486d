from __future__ import annotations

from collections import deque

import pytest

from perfdoctor.probe.containers import (
    ends_of,
    fields_of,
    first_of,
    held_by,
    is_a,
    is_mapping,
    is_sequence,
    length_of,
    values_of,
)
from tests.support.watched import watched


def refuse(*args):
    raise AssertionError("code of the script's ran")


def own(kind):
    names = ("__getitem__", "__iter__", "__len__", "__bool__", "__reversed__", "values", "items", "keys")
    return type("Own", (kind,), dict.fromkeys(names, refuse))


@pytest.mark.parametrize("kind", [list, tuple, deque])
def test_a_sequence_of_the_scripts_is_read_past_its_code(kind):
    value = own(kind)(range(6))
    assert is_sequence(value)
    assert not is_mapping(value)
    assert length_of(value) == 6
    assert first_of(value, 2) == [0, 1]
    assert ends_of(value, 2) == [0, 1, 4, 5]
    assert ends_of(own(kind)([7]), 2) == [7, 7]


def test_a_dict_of_the_scripts_is_read_past_its_code():
    value = own(dict)(a=1, b=2, c=3)
    assert is_mapping(value)
    assert values_of(value, 2) == [1, 2]


def test_what_only_says_that_it_is_a_list_is_none():
    class Proxy:
        __class__ = list

    assert isinstance(Proxy(), list)
    assert not is_sequence(Proxy())


def test_a_lazy_object_is_not_computed_to_tell_what_it_is():
    class Lazy:
        __class__ = property(refuse)

    class Texts(list):
        pass

    assert not is_a(Lazy(), list)
    assert is_a(Lazy(), Lazy)
    assert is_a(Texts(), (dict, list))


def test_attributes_are_read_past_the_code_of_a_class():
    class Own:
        kind = 3

        def __init__(self):
            self.size = 2

        def __getattribute__(self, name):
            raise AssertionError(name)

        @property
        def computed(self):
            raise AssertionError

    class Slots:
        __slots__ = ("size",)

        def __getattr__(self, name):
            raise AssertionError(name)

    assert fields_of(Own()) == {"size": 2}
    assert (held_by(Own(), "size"), held_by(Own(), "kind"), held_by(Own(), "other")) == (2, 3, None)
    assert isinstance(held_by(Own(), "computed"), property)
    assert fields_of(Slots()) == {}


@pytest.mark.process
@pytest.mark.shows("randomness")
def test_lazy_objects_of_a_script_are_computed_when_it_uses_them(tmp_path):
    pytest.importorskip("torch")
    script = """
    import collections, torch
    from torch.utils.data import DataLoader, Dataset
    seen = collections.Counter()
    class Lazy:
        def __init__(self, place):
            self.__dict__["place"] = place
        @property
        def __class__(self):
            seen[self.__dict__["place"]] += 1
            return list
    shared = Lazy("global")
    class Data(Dataset):
        def __init__(self):
            self.lazy = Lazy("dataset")
        def __len__(self):
            return 320
        def __getitem__(self, index):
            lazy = Lazy("local of the dataset")
            self.helper(lazy)
            return torch.randn(4), Lazy("item")
        def helper(self, lazy):
            return lazy
    def collate(items):
        return torch.stack([item[0] for item in items]), Lazy("batch"), (Lazy("in a tuple"),)
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.lazy = torch.nn.Linear(4, 2), Lazy("module")
        def forward(self, x, lazy, other=None):
            return self.layer(x)
    class Trainer:
        def __init__(self):
            self.lazy, self.model = Lazy("trainer"), Net()
        def fit(self):
            optimizer = torch.optim.SGD(self.model.parameters(), 0.1)
            local, held = Lazy("local"), (Lazy("in a local"),)
            for epoch in range(4):
                for x, lazy, pair in DataLoader(Data(), batch_size=8, collate_fn=collate):
                    self.model(x, lazy, other=local).sum().backward()
                    optimizer.step()
                    optimizer.zero_grad()
    trainer = Trainer()
    seen.clear()  # torch asks what a module is given for an attribute
    trainer.fit()
    assert not seen, seen
    """
    watched(tmp_path, script)

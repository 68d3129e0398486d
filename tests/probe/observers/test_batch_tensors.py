from __future__ import annotations

from collections import UserDict, namedtuple
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from perfdoctor.probe.observers import batch_tensors
from perfdoctor.probe.observers.batch_tensors import BatchTensors, counted
from perfdoctor.wire.events.loaders import BatchTensorsEvent
from tests.support.sessions import Session
from tests.support.watched import watched

Pair = namedtuple("Pair", "x y")


@dataclass
class Graph:
    nodes: torch.Tensor
    edges: torch.Tensor
    name: str = "a"


class Guarded(list):
    """A container whose own ways of telling what it holds would do something."""

    def __iter__(self):
        raise AssertionError("asked")

    __len__ = __getitem__ = __getattribute__ = __iter__


def tensor():
    return torch.zeros(3)


def inside_itself():
    batch = [tensor()]
    batch.append(batch)
    return batch


SHARED = torch.zeros(3)


@pytest.mark.parametrize(
    ("batch", "found"),
    [
        pytest.param(tensor(), (1, 0), id="one"),
        pytest.param((tensor(), tensor()), (2, 2), id="two"),
        pytest.param([Graph(tensor(), tensor()) for _ in range(62)], (124, 62), id="objects"),
        pytest.param((tensor(), [{"a": tensor(), "b": [tensor()]}] * 3), (3, 3), id="the-same-again"),
        pytest.param([SHARED] * 9, (1, 9), id="one-many-times"),
        pytest.param({str(n): tensor() for n in range(500)}, (500, 500), id="columns"),
        pytest.param(UserDict(x=Pair(tensor(), None), y=[1, 2]), (1, 2), id="mappings-of-other-kinds"),
        pytest.param(SimpleNamespace(x=tensor(), y="text", z=Graph), (1, 0), id="attributes"),
        pytest.param([1, 2, 3, 4], (0, 0), id="numbers"),
        pytest.param(None, (0, 0), id="nothing"),
        pytest.param(inside_itself(), (1, 2), id="inside-itself"),
        pytest.param(Guarded([tensor(), tensor()]), (2, 2), id="not-asked"),
        pytest.param(torch.nn.ParameterList([tensor()]), (1, 1), id="a-module"),
    ],
)
def test_tensors_are_counted_wherever_they_are(batch, found):
    assert counted(batch, torch.Tensor) == found


def test_what_is_looked_at_is_bounded(monkeypatch):
    monkeypatch.setattr(batch_tensors, "LOOKED_MAX", 50)
    assert counted([tensor() for _ in range(200)], torch.Tensor) == (49, 50)


def test_the_first_batches_of_each_loader_are_written_and_no_more_than_so_many():
    session = Session()
    looks = BatchTensors(session, torch.Tensor)
    for loader in range(1, 30):
        for _ in range(20):
            looks.look(loader, [tensor()])
    assert [event["loader"] for event in session.events[:9]] == [1] * 8 + [2]
    assert len(session.events) == 64


SCRIPT = """
    import torch
    from torch.utils.data import DataLoader

    if __name__ == "__main__":
        data = [{"x": torch.ones(4), "y": torch.ones(1)} for _ in range(64)]
        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for batch in DataLoader(data, batch_size=4, collate_fn=list, num_workers=1):
            optimizer.zero_grad()
            model(torch.stack([one["x"] for one in batch])).sum().backward()
            optimizer.step()
"""


@pytest.mark.process
def test_a_list_of_samples_comes_as_all_of_their_tensors(tmp_path):
    found = watched(tmp_path, SCRIPT).ranks[0].of(BatchTensorsEvent)
    assert {(event.loader, event.tensors, event.longest) for event in found} == {(1, 8, 4)}
    assert len(found) == 8

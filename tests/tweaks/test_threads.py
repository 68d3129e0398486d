"""--threads: the processes that train compute with N threads, whatever the script asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.applying import applied, ran

torch = pytest.importorskip("torch")
from torch import nn
from torch.utils.data import DataLoader, Dataset

pytestmark = pytest.mark.process


class Threads(Dataset[int]):
    """Each item is the number of threads where it is made; the last one asks for more."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> int:
        if index:
            torch.set_num_threads(3)
        return int(torch.get_num_threads())


@pytest.fixture(autouse=True)
def _one() -> Any:
    was = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(was)


def test_there_are_n_threads_from_the_start() -> None:
    with applied("threads", 2) as told:
        assert torch.get_num_threads() == 2
        (place,) = told.applied
    assert (place["what"], place["was"], place["now"]) == ("torch.set_num_threads", 1, 2)
    assert place["at"] is None  # the line that imports torch asked for nothing


def test_what_the_script_asks_for_later_becomes_n_as_well() -> None:
    with applied("threads", 2) as told:
        torch.set_num_threads(4)
        assert torch.get_num_threads() == 2
        place = told.applied[1]
    assert (place["was"], place["now"]) == (4, 2)
    assert place["at"]["function"] == test_what_the_script_asks_for_later_becomes_n_as_well.__name__


def test_n_threads_that_are_there_already_are_no_change() -> None:
    with applied("threads", 1) as told:
        torch.set_num_threads(1)
    assert not told.applied
    assert told.left_alone[0]["because"] == "the number of threads is already 1"


def test_a_loaders_workers_keep_what_they_have() -> None:
    with applied("threads", 2) as told:
        made = [int(item) for item in DataLoader(Threads(), batch_size=None, num_workers=1)]
        assert torch.get_num_threads() == 2
        assert len(told.applied) == 1
    assert made == [1, 3]


@pytest.mark.slow
def test_a_script_of_its_own_is_told_its_lines(tmp_path: Path) -> None:
    code = """
        import torch
        torch.set_num_threads(1)
        print(torch.get_num_threads(), "threads")
        layer = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(layer.parameters(), 0.1)
        for _ in range(3):
            layer(torch.ones(1, 2)).sum().backward()
            optimizer.step()
    """
    found = ran(tmp_path, code, {"threads": {"value": 3}}, 3)
    assert "3 threads" in found.printed
    assert [place["at"] and place["at"]["line"] for place in found.told.applied] == [None, 3]


def test_losses_agree_within_rounding() -> None:
    def losses() -> list[float]:
        torch.manual_seed(0)
        layer = nn.Linear(256, 1)
        optimizer = torch.optim.SGD(layer.parameters(), 1e-3)
        found = []
        for _ in range(50):
            loss = (layer(torch.randn(512, 256)) - 1).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        return found

    original = losses()
    with applied("threads", 2):
        tweaked = losses()
    assert tweaked == pytest.approx(original, rel=1e-5)

import gc
import sys

import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset

from perfdoctor.probe.loader.dataset_sizes import DatasetSizes


class Items(Dataset):
    def __init__(self, asked):
        self.asked = asked

    def __len__(self):
        self.asked.append(1)
        return 12

    def __getitem__(self, index):
        return index


@pytest.fixture
def sizes(monkeypatch):
    for module in (torch.utils.data.sampler, torch.utils.data.distributed):
        monkeypatch.setattr(module, "len", len, raising=False)
    known = DatasetSizes()
    known.install(torch.utils.data)
    return known


def test_a_dataset_of_the_scripts_is_not_asked(sizes):
    asked = []
    assert sizes.of(Items(asked)) is None
    assert asked == []


@pytest.mark.parametrize("shuffle", [False, True])
def test_what_a_sampler_is_told_is_known(sizes, shuffle):
    asked = []
    items = Items(asked)
    list(DataLoader(items, 4, shuffle=shuffle))
    before = len(asked)
    assert sizes.of(items) == 12
    assert len(asked) == before


def test_what_is_gone_is_forgotten(sizes):
    list(DataLoader(Items([]), 4))
    gc.collect()
    assert len(sizes.told) == 0


@pytest.mark.parametrize(
    "dataset",
    [
        pytest.param([1, 2, 3], id="list"),
        pytest.param(TensorDataset(torch.ones(3, 2)), id="tensors"),
        pytest.param(Subset(Items([]), range(3)), id="part"),
    ],
)
def test_others_are_asked(sizes, dataset):
    assert sizes.of(dataset) == 3


@pytest.mark.skipif(sys.version_info < (3, 11), reason="older interpreters put a frame back when re-raising")
def test_a_length_that_fails_shows_no_frame_of_ours(sizes):
    class Broken(Items):
        def __len__(self):
            raise LookupError("nobody knows")

    with pytest.raises(LookupError) as raised:
        list(DataLoader(Broken([]), 4))
    assert "len" not in [entry.name for entry in raised.traceback]

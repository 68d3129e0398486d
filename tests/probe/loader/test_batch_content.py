from collections import UserDict

import pytest

torch = pytest.importorskip("torch")

from perfdoctor.probe.loader.batch_content import ITEMS_MAX, leaves, samples_of


class Counting(list):
    """A list that counts how often it is looked at."""

    looks = 0

    def __getitem__(self, index):
        Counting.looks += 1
        return super().__getitem__(index)


@pytest.mark.parametrize(
    ("batch", "samples"),
    [
        (torch.ones(3, 2), 3),
        ([torch.ones(3, 2), torch.ones(4)], 3),
        ({"ids": [[1, 2], [3]], "labels": torch.ones(2)}, 2),
        (UserDict(ids=torch.ones(5, 2)), 5),
        (torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), 2),
        ([torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])], 2),
        (["a", "b"], 0),
        ([], 0),
        (torch.tensor(1.0), 0),
    ],
)
def test_samples_are_the_first_dimension_of_the_first_tensor(batch, samples):
    assert samples_of(batch, torch.Tensor) == samples


PICTURES = [torch.ones(3, 8, 8)] * 16


@pytest.mark.parametrize(
    ("batch", "most", "samples"),
    [
        pytest.param((PICTURES, [{"boxes": torch.ones(2, 4)}] * 16), 16, 16, id="detection"),
        pytest.param([(torch.ones(9), torch.tensor(1))] * 8, 8, 8, id="not-collated"),
        pytest.param((torch.ones(20, 8, 5), torch.ones(20, 8)), 8, 8, id="time-first"),
        pytest.param((torch.ones(5, 8, 3), torch.ones(8)), 8, 8, id="time-first-labels-not"),
        pytest.param((torch.ones(8, 3), torch.ones(8)), 8, 8, id="usual"),
        pytest.param((torch.ones(5, 3), torch.ones(5)), 8, 5, id="last-batch"),
        pytest.param((torch.ones(1, 3), torch.ones(1)), 2, 1, id="last-of-two-in-two-tensors"),
        pytest.param((["a"] * 8,), 8, 0, id="texts"),
    ],
)
def test_lists_with_a_tensor_for_each_sample_and_batches_with_time_first_are_told_by_the_batch_size(
    batch, most, samples
):
    assert samples_of(batch, torch.Tensor, most) == samples


def test_what_is_no_container_is_not_asked_for_anything():
    class Row:
        def __getattr__(self, name):
            raise KeyError(name)

    assert leaves([Row(), torch.ones(1)], torch.Tensor) == [torch.ones(1)]


@pytest.mark.parametrize("inner", [[1] * 100, [[1, 2]] * 100, [object()] * 100])
def test_a_batch_of_lists_is_not_looked_through_to_its_end(inner):
    Counting.looks = 0
    assert leaves([Counting(inner) for _ in range(60)], torch.Tensor) == []
    assert Counting.looks <= ITEMS_MAX // 10 + 60

"""Copies of items, what names one, and when two are the same."""

from __future__ import annotations

from collections import OrderedDict, UserDict, namedtuple
from pathlib import Path
from typing import Any

import pytest

from perfdoctor.tweaks._items import Uncopied, copied, key_of, same

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")

Point = namedtuple("Point", "x y")
ITEMS = [
    1,
    2.5,
    "word",
    None,
    Path("file"),
    np.float32(1.5),
    torch.arange(6.0).reshape(2, 3),
    torch.tensor(float("nan")),
    torch.randn(2, requires_grad=True),
    np.array([1.0, float("nan")]),
    [torch.ones(2), {"deep": (np.ones(3), "x")}],
    Point(torch.ones(1), [2]),
    OrderedDict(a=[1], b=torch.zeros(2)),
    UserDict({"ids": [1, 2, 3]}),
    torch.Size([2, 3]),
]


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: type(item).__name__)
def test_a_copy_is_the_same_and_of_the_same_type(item: Any) -> None:
    copy = copied(item)
    assert type(copy) is type(item)
    assert same(item, copy)


def test_a_copy_shares_nothing_that_could_change() -> None:
    item = {"x": torch.zeros(2), "y": [np.zeros(2)], "z": UserDict({"a": [1]})}
    copy = copied(item)
    copy["x"].add_(1)
    copy["y"][0] += 1
    copy["z"]["a"].append(2)
    copy["new"] = 1
    assert same(item, {"x": torch.zeros(2), "y": [np.zeros(2)], "z": UserDict({"a": [1]})})


def test_the_copy_of_a_view_is_no_larger_than_the_view() -> None:
    assert copied(torch.zeros(1000, 10)[3]).untyped_storage().nbytes() == 40


def test_an_image_is_copied_and_one_that_reads_its_file_is_not(tmp_path: Path) -> None:
    pillow = pytest.importorskip("PIL.Image")
    image = pillow.new("RGB", (2, 2), (1, 2, 3))
    assert same(image, copied(image))
    copied(image).putpixel((0, 0), (9, 9, 9))
    assert image.getpixel((0, 0)) == (1, 2, 3)
    image.save(tmp_path / "image.png")
    with pillow.open(tmp_path / "image.png") as opened, pytest.raises(Uncopied, match="PngImageFile"):
        copied(opened)


class Marked(torch.Tensor):
    """A tensor with something beside its elements."""


def marked() -> Any:
    tensor = torch.zeros(2).as_subclass(Marked)
    tensor.mark = object()
    return tensor


@pytest.mark.parametrize(
    "item",
    [
        object(),
        [object()],
        np.array([object()]),
        torch.eye(2).to_sparse(),
        torch.empty(1, device="meta"),
        marked(),
    ],
)
def test_what_cannot_be_copied_for_sure_is_refused(item: Any) -> None:
    with pytest.raises(Uncopied):
        copied(item)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        (torch.zeros(2), torch.zeros(2, dtype=torch.float64)),
        (torch.zeros(2), torch.zeros(1, 2)),
        (torch.zeros(2), torch.tensor([0.0, 1e-30])),
        (np.zeros(2), np.zeros(2, dtype=np.float32)),
        ([1, 2], [1]),
        ({"a": 1}, {"b": 1}),
        ({"a": [1]}, {"a": [2]}),
        ("a", "b"),
    ],
)
def test_items_that_differ_are_not_the_same(one: Any, other: Any) -> None:
    assert not same(one, other)


@pytest.mark.parametrize("index", [3, "file.png", (1, "a"), np.int64(3), torch.tensor(3), (np.int64(3), 2)])
def test_an_index_that_names_one_item_has_a_key_of_its_own(index: Any) -> None:
    assert key_of(index) is not None
    assert key_of(index) == key_of(index)
    assert key_of(index) != key_of(4)


@pytest.mark.parametrize("index", [[1, 2], torch.tensor([1]), np.arange(2), slice(2), (1, [2]), 1.5, None])
def test_what_names_several_items_has_none(index: Any) -> None:
    assert key_of(index) is None

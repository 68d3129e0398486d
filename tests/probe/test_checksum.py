from __future__ import annotations

import copy
import io
import re
from collections import UserDict
from pathlib import Path

import pytest

from perfdoctor.probe.checksum import UNREADABLE, WHOLE_NUMBERS, checksum, whole_checksum

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")


class Plain:
    def __init__(self, value):
        self.value = value


class Slotted:
    __slots__ = ("value",)


PAIRS = [
    (1, 2),
    (1, 1.0),
    (1, True),
    ("a", b"a"),
    ("x" * 9999, "x" * 9998),
    ([1, 2], (1, 2)),
    ([0] * 100, [0] * 99 + [1]),
    ({"a": 1}, {"a": 2}),
    (np.zeros(3), np.zeros((3, 1))),
    (np.zeros(3), np.ones(3)),
    (np.zeros(3), np.zeros(3, np.float32)),
    (np.float32(1), np.float32(2)),
    (torch.zeros(3), torch.ones(3)),
    (Path("a"), Path("b")),
    (re.compile("a"), re.compile("b")),
    (Plain(1), Plain(2)),
    (len, max),
]


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_tells_values_apart(one, other):
    assert checksum(one) == checksum(one) != UNREADABLE
    assert checksum(one) != checksum(other)


def test_equal_values_made_anew_have_the_same():
    assert checksum({"a": [1, Plain("b")]}) == checksum({"a": [1, Plain("b")]})
    assert checksum(np.arange(9)) == checksum(np.arange(9))
    assert checksum(np.arange(9)[::2]) == checksum(np.array([0, 2, 4, 6, 8]))


def test_says_what_it_cannot_read():
    deep = [[[[[[1]]]]]]
    for value in (Slotted(), io.StringIO("x"), (1, Slotted()), np.array([{}]), deep, (n for n in "a")):
        assert checksum(value) is UNREADABLE


def test_what_lives_on_is_the_same_as_itself():
    one = Slotted()
    assert checksum(one, {id(one): None}) == checksum(one, {id(one): None}) != UNREADABLE


def test_files_are_told_by_their_names(tmp_path):
    (tmp_path / "a").write_text("one")
    with open(tmp_path / "a") as first, open(tmp_path / "a") as second:
        assert checksum(first) == checksum(second) != UNREADABLE


def test_data_frames_are_told_by_their_corners():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1, 2], "b": [3, 4]})
    assert checksum(frame) == checksum(frame.copy()) != UNREADABLE
    assert checksum(frame) != checksum(frame + 1)


def test_looks_at_a_bounded_part_and_calls_nothing_of_the_values():
    class Touchy:
        def __getattr__(self, name):
            raise AssertionError(name)

        __eq__ = __hash__ = __len__ = __iter__ = __repr__ = __getattr__

    assert checksum([Touchy()] * 10**6) == checksum([Touchy()] * 10**6)


def test_one_element_of_a_whole_item_makes_a_difference():
    pillow = pytest.importorskip("PIL.Image")
    plain = np.zeros((3, 224, 224), np.float32)
    spot = plain.copy()
    spot[1, 100, 101] = 1
    pairs = [
        (plain, spot),
        (torch.from_numpy(plain), torch.from_numpy(spot)),
        ((plain.transpose(1, 2, 0), 1), (spot.transpose(1, 2, 0), 1)),
        (pillow.new("RGB", (64, 64)), pillow.fromarray(np.eye(64, dtype=np.uint8)).convert("RGB")),
        ({"text": "a" * 5000}, {"text": "a" * 2500 + "b" + "a" * 2499}),
        ([0] * 1000, [0] * 500 + [1] + [0] * 499),
        (UserDict(ids=[0] * 100), UserDict(ids=[0] * 50 + [1] * 50)),
    ]
    for one, other in pairs:
        assert whole_checksum(one) == whole_checksum(copy.deepcopy(one)) != UNREADABLE
        assert whole_checksum(one) != whole_checksum(other)


def test_an_image_is_read_as_a_whole_or_not_at_all():
    pillow = pytest.importorskip("PIL.Image")
    small, large = (pillow.new("RGB", (size, size)) for size in (224, 512))
    spot = small.copy()
    spot.putpixel((112, 112), (1, 0, 0))
    assert whole_checksum(small) == whole_checksum(small.copy()) != whole_checksum(spot)
    assert whole_checksum(large) is UNREADABLE
    assert checksum(small) is UNREADABLE
    assert whole_checksum(small.convert("P")) is UNREADABLE


def test_of_a_very_large_item_a_part_is_read():
    large = np.zeros(10 * WHOLE_NUMBERS, np.uint8)
    spot = large.copy()
    spot[1] = 1
    assert whole_checksum(large) == whole_checksum(spot)
    many = [[["x"] * 100] * 100] * 1000
    assert whole_checksum(many) is UNREADABLE
    assert whole_checksum(["x" * 1000] * 1500) is not UNREADABLE


def test_a_tensor_that_was_read_can_be_resized():
    tensor = torch.zeros(4)
    assert checksum(tensor) != UNREADABLE
    tensor.resize_(100)
    tensor.untyped_storage().resize_(0)
    assert checksum(tensor) is UNREADABLE

from __future__ import annotations

import pytest

from perfdoctor.facts.data.compared_calls import at_frame, compared
from perfdoctor.facts.user_source.frames import Frame, Owner

TRAIN = "/home/me/train.py"
KEY = (TRAIN, 13), "read"


def call(**given):
    """64 calls, of which 8 have arguments of calls long before: of 1,152 pairs so far apart, 8 are alike."""
    at = {"file": TRAIN, "line": 13, "function": "__getitem__"}
    seen = {"calls": 64, "compared": 64, "repeated": 8, "far": 8, "differed": 0, "arguments": 56, **given}
    return {
        "at": at,
        "callee": "read",
        "module": "shop.files",
        "function": "read",
        "file": TRAIN,
        "line": 3,
        **seen,
    }


def again(items, *looks):
    return compared((64, [look]) for look in looks)[KEY].again(items)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({}, (1 - 144 / 32_000, 144), id="many"),
        pytest.param({"calls": 128}, (1 - 144 / 64_000, 144), id="two an item"),
        pytest.param({"far": 4}, (0.125, None), id="too few came again"),
        pytest.param({"repeated": 40, "arguments": 24}, (0.625, None), id="few, as they were seen"),
        pytest.param({"repeated": 63, "arguments": 1}, (1.0, None), id="always the same"),
        pytest.param({"differed": 1}, (0.0, None), id="another result"),
        pytest.param({"compared": 5, "far": 5}, (0.0, None), id="too few compared"),
    ],
)
def test_the_share_of_calls_that_repeat_one_and_how_many_arguments_there_are(given, expected):
    assert again(32_000, call(**given)) == (pytest.approx(expected[0]), expected[1])


def test_in_a_short_run_most_calls_are_the_first_of_their_arguments():
    assert again(1_439, call()) == (0.125, None)
    assert again(1_441, call())[1] == 144


def test_each_process_compares_its_own_calls():
    assert again(32_000, call(), call()) == (pytest.approx(1 - 144 / 32_000), 144)
    assert again(32_000, call(), call(far=16)) == (pytest.approx(1 - 96 / 32_000), 96)


def test_what_is_called_is_named_as_scripts_write_it():
    assert compared([(64, [call()])])[KEY].name == "shop.read"
    assert compared([(64, [call(module="__main__")])])[KEY].name == "read"


def test_damaged_entries_are_left_out():
    assert compared([(64, [{}, {"at": {"file": TRAIN}}])]) == {}


def test_a_stack_is_in_the_call_of_its_next_frame():
    frames = [Frame("fetch", TRAIN, 13, Owner.USER), Frame("read", TRAIN, 3, Owner.USER)]
    assert at_frame(frames, 0) == KEY
    assert at_frame(frames, 1) == ((TRAIN, 3), "")

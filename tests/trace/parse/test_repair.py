"""Events that are no valid JSON are read as far as possible."""

from __future__ import annotations

from decimal import Decimal

import pytest

from perfdoctor.trace.parse.repair import decoded, repair


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (b'{"ph": "X", "name": "f<"a">", "pid": 1}', 'f<"a">'),
        (b'{"cat": "a"b", "name": "c"d", "ts": 1}', 'c"d'),
        (b'{"name": "already \\"escaped\\" and "not"", "ts": 1}', 'already "escaped" and "not"'),
        (b'{"name": "tab\there", "ts": 1}', "tab\there"),
        (b'{"name": "caf\xe9", "ts": 1}', "caf�"),
        (b'{"name": "good", "ts": 1, "args": {"stack": "a "b" c"}}', "good"),
        (b'{"name": "last "one""}', 'last "one"'),
    ],
)
def test_the_name_survives(text: bytes, name: str) -> None:
    event = repair(text)
    assert event is not None
    assert event["name"] == name


@pytest.mark.parametrize(
    "bad", [b"", b" ", b"inf", b"-inf", b"nan", b"-nan(ind)", b"unknown", b"+1", b"0x1f"], ids=repr
)
def test_of_arguments_only_the_value_that_is_none_is_lost(bad: bytes) -> None:
    event = repair(
        b'{"name": "f<"a">: ,", "args": {"text": "a: , inf", "bad":'
        + bad
        + b', "list": [1, 2.5e-3, true], "last": -7}}'
    )
    assert event is not None
    assert event["name"] == 'f<"a">: ,'
    assert event["args"] == {
        "text": "a: , inf", "bad": None, "list": [1, Decimal("2.5e-3"), True], "last": -7
    }  # fmt: skip


@pytest.mark.parametrize("text", [b"", b"{", b"[1]", b'{"name": "cut', b"{" * 100_000])
def test_what_cannot_be_mended_is_none(text: bytes) -> None:
    assert repair(text) is None


def test_stamps_too_large_for_float64_are_decoded_exactly() -> None:
    assert decoded(b'[{"ts": 1712195495505582.988}]') == [{"ts": Decimal("1712195495505582.988")}]
    assert decoded(b'[{"ts": 4203669604595.407}]') == [{"ts": 4203669604595.407}]
    assert decoded(b"{broken") is None

from __future__ import annotations

import pytest

from perfdoctor.watch.guard import guarded


def test_what_fails_inside_is_told_in_one_line_and_goes_no_further() -> None:
    told: list[str] = []
    with guarded(told.append):
        raise LookupError("no such sampler")
    assert told == ["LookupError: no such sampler"]


def test_what_ends_the_program_goes_on_its_way() -> None:
    with pytest.raises(KeyboardInterrupt), guarded(print):
        raise KeyboardInterrupt

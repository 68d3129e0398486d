from __future__ import annotations

import pytest

from perfdoctor.errors import NoSuchRun
from perfdoctor.model.own_failure import OwnFailure
from perfdoctor.own_failures import STRICT, contained, guarded


def test_what_fails_inside_is_told_in_one_line_and_goes_no_further() -> None:
    told: list[str] = []
    with guarded(told.append):
        raise LookupError("no such sampler")
    assert told == ["LookupError: no such sampler"]


def test_what_ends_the_program_goes_on_its_way() -> None:
    with pytest.raises(KeyboardInterrupt), guarded(print):
        raise KeyboardInterrupt


def test_a_failure_is_contained_and_kept_with_how_it_came_about(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(STRICT)
    found: list[OwnFailure] = []
    with contained("the page", found):
        raise LookupError("no such\nblock")
    with contained("the page", found):
        pass
    (failure,) = found
    assert (failure.feature, failure.error) == ("the page", "LookupError: no such block")
    assert 'raise LookupError("no such' in failure.trace


def test_what_users_are_told_and_what_ends_the_program_are_not_contained(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(STRICT)
    found: list[OwnFailure] = []
    for error in (NoSuchRun("no runs here"), KeyboardInterrupt(), SystemExit(3)):
        with pytest.raises(type(error)), contained("the page", found):
            raise error
    assert not found


def test_for_those_who_work_on_it_nothing_is_contained() -> None:
    with pytest.raises(LookupError), contained("the page", []):
        raise LookupError

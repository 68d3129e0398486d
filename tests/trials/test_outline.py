from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from perfdoctor.model.trial import OWN_ERROR, Execution, Place
from perfdoctor.trials.outline import outline_of
from tests.support.records import MS, records, rows, update

BEGIN_MS = 1000.0  # of the first row
TOLD = {"event": "tweak", "tweak": "cache_dataset", "what": "items"}
APPLIED = TOLD | {"outcome": "applied"}
WITHDRAWN = TOLD | {"outcome": "withdrawn", "because": "item 3 differed"}
ERROR = WITHDRAWN | {"what": None, "because": "TypeError: no"}
END = {"event": "trial_end", "broken": {"cache_dataset": "TypeError: no", "loader": "KeyError: 1"}}


def at(milliseconds: float) -> dict[str, Any]:
    return {"t_ns": round((BEGIN_MS + milliseconds) * MS)}


def outline(*events: Any) -> Execution:
    """Of an execution of ten steps that take 10 ms each."""
    run = {"tweaks": {"cache_dataset": {}}}
    return outline_of(records(rows([update(10.0)] * 10), events=events, run=run), 0)


@pytest.mark.parametrize(("ms", "step"), [(0.0, 0), (35.0, 3), (500.0, 10)])
def test_what_was_withdrawn_tells_after_how_many_steps(ms: float, step: int) -> None:
    (place,) = outline(APPLIED, WITHDRAWN | at(ms)).withdrawn
    assert place == Place("cache-dataset", "items", because="item 3 differed", step=step)


def test_what_several_processes_tell_counts_from_the_first_of_them() -> None:
    found = outline(APPLIED, WITHDRAWN | at(75.0), WITHDRAWN | at(25.0))
    assert [place.step for place in found.withdrawn] == [2]


def test_of_several_ranks_too() -> None:
    one = records(rows([update(10.0)] * 10), events=[APPLIED, WITHDRAWN | at(75.0)])
    other = records(rows([update(10.0)] * 10), events=[APPLIED, WITHDRAWN | at(45.0)])
    both = replace(one, ranks={0: one.ranks[0], 1: other.ranks[0]})
    assert [place.step for place in outline_of(both, 0).withdrawn] == [4]


def test_an_error_after_it_was_applied_is_told_once() -> None:
    (place,) = outline(APPLIED, ERROR | at(25.0), END).withdrawn
    assert place == Place("cache-dataset", OWN_ERROR, because="TypeError: no", step=2)


def test_an_error_that_only_the_end_tells_of_has_no_step() -> None:
    (place,) = outline(APPLIED, END).withdrawn
    assert place == Place("cache-dataset", OWN_ERROR, because="TypeError: no")


def test_what_was_never_applied_has_nothing_to_withdraw() -> None:
    found = outline(ERROR | at(5.0), END)
    assert found.withdrawn == ()
    assert found.broken == ("cache_dataset: TypeError: no",)


def test_damaged_events_are_no_trouble() -> None:
    (place,) = outline(APPLIED, WITHDRAWN | {"because": ["x"], "was": [1], "t_ns": "then"}).withdrawn
    assert place.step == 0

from __future__ import annotations

import pytest

from perfdoctor.facts.script.skipped_updates import SETTLING, skipped_update_facts
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.step_rows import ROLLED_UP, SKIPPED
from tests.support.records import backward, rows, update

FIRST = [update(flags=SKIPPED)] * SETTLING


def facts(described):
    return skipped_update_facts(RankRecords(0, rows(described), None, ()))


def test_updates_left_out_are_counted_behind_the_first_ones():
    later = [update(flags=SKIPPED) if n % 10 == 0 else update() for n in range(200)]
    found = facts([*FIRST, *later])
    assert (found.updates, found.skipped) == (200, 20)
    assert found.share == pytest.approx(0.1)


def test_rows_that_no_update_closed_do_not_count():
    found = facts([*FIRST, *[backward(), update(), backward(), update(flags=SKIPPED)] * 10])
    assert (found.updates, found.skipped) == (20, 10)


def test_a_row_of_many_updates_tells_no_share():
    found = facts(
        [*FIRST, *[update(flags=ROLLED_UP | SKIPPED, marks=20)] * 9, update(flags=SKIPPED), update()]
    )
    assert (found.updates, found.skipped) == (2, 1)


def test_where_none_is_left_out_later_there_is_nothing_to_tell():
    assert facts([*FIRST, *[update()] * 100]) is None
    assert facts(FIRST[1:]) is None
    assert skipped_update_facts(RankRecords(0, None, None, ())) is None

from __future__ import annotations

import pytest

from perfdoctor.model.change import Change, Estimate, removes
from perfdoctor.model.concluded import Advice
from perfdoctor.model.coverage import Covered
from perfdoctor.model.lines import WaitPart
from perfdoctor.model.measured import Phase
from tests.support.line_facts import at, suspect

MADE = WaitPart.DATASET


def left(change, *parts, places=()):
    return Covered.by([Advice(("because",), change, at=places)]).left(parts)


def test_a_change_at_a_line_is_about_the_time_below_it_and_no_more_than_it_takes_away():
    inside = suspect(0.3, Phase.OTHER, 20, 25)
    elsewhere = suspect(0.3, Phase.OTHER, 50)
    assert left(removes(0.1, 0.2, 0.25), inside, elsewhere, places=(at(20),)) == pytest.approx([0.05, 0.3])


def test_a_line_that_a_finding_names_is_the_findings_whatever_the_samples_measure():
    itself = suspect(0.3, Phase.OTHER, 20)
    below, elsewhere = suspect(0.3, Phase.OTHER, 20, 25), suspect(0.3, Phase.OTHER, 50)
    change = removes(0.1, 0.15, 0.2)
    assert left(change, itself, elsewhere, places=(at(20),)) == [0.0, 0.3]
    assert left(change, itself, below, places=(at(20),)) == [0.0, 0.3]  # its share is used up
    assert left(change, below, itself, places=(at(20),)) == pytest.approx([0.1, 0.0])


def test_a_line_is_the_findings_in_its_phase_and_unless_all_training_runs_below_it():
    advice = Advice(("because",), removes(0, 0.1, 0.2), at=(at(3),), phase=Phase.CHECKPOINT)
    found = Covered.by([advice])
    assert found.left([suspect(0.4, Phase.FORWARD, 3)]) == [0.4]
    assert found.left([suspect(0.4, Phase.CHECKPOINT, 3)]) == [0.0]
    other = Covered.by([Advice(("because",), removes(0, 0.1, 0.2), at=(at(3),))])
    assert other.left([suspect(0.4, Phase.FORWARD, 3)], frozenset({("train.py", 3)})) == [0.4]


def test_parts_use_a_finding_up_in_their_order():
    parts = [suspect(0.2, Phase.OTHER, 20, 25), suspect(0.2, Phase.OTHER, 20, 26)]
    assert left(removes(0.1, 0.2, 0.3), *parts, places=(at(20),)) == pytest.approx([0.0, 0.1])


def test_a_line_around_the_step_counts_as_well():
    assert left(removes(0, 0.1, 0.2), suspect(0.2, Phase.OTHER, 20, callers=(3,)), places=(at(3),)) == [0.0]


def test_a_line_that_whole_steps_run_below_counts_beside_another_one_only():
    part = suspect(0.2, Phase.OTHER, 20, callers=(3,))
    steps = frozenset({("train.py", 3)})
    for places, rest in (((at(3),), 0.2), ((at(3), at(20)), 0.0), ((), 0.0)):
        found = Covered.by([Advice(("because",), removes(0, 0.1, 0.2), at=places)])
        assert found.left([part], steps) == [rest]


def test_a_change_that_is_about_a_phase_is_about_it_below_such_a_line_too_and_about_no_other():
    saves, computes = suspect(0.2, Phase.CHECKPOINT, 3), suspect(0.2, Phase.FORWARD, 3)
    advice = Advice(("because",), removes(0, 0.1, 0.2), at=(at(3),), phase=Phase.CHECKPOINT)
    found = Covered.by([advice])
    assert found.left([saves, computes], frozenset({("train.py", 3)})) == [0.0, 0.2]


@pytest.mark.parametrize(
    "change", [Change(workers=4), Change(prefetch=8), Change(batch=Estimate(0.1, 0.2, 0.3))]
)
def test_a_change_of_how_batches_are_made_is_about_all_waits_for_them(change):
    waits, computes = suspect(0.4, Phase.DATA_WAIT, 12, wait=MADE), suspect(0.4, Phase.FORWARD, 12)
    assert left(change, waits, computes) == [0.0, 0.4]


def test_a_sampler_stays_in_the_training_process_whoever_makes_the_batches():
    assert left(Change(workers=4), suspect(0.4, Phase.DATA_WAIT, 12, wait=WaitPart.SAMPLER)) == [0.4]


def test_waits_at_epoch_starts_are_a_part_of_the_waits():
    found = left(Change(starts=Estimate(0.1, 0.1, 0.1)), suspect(0.4, Phase.DATA_WAIT, 12))
    assert found == pytest.approx([0.3])


def test_waits_for_other_loaders_are_a_part_of_the_waits():
    found = left(Change(others=Estimate(0.1, 0.1, 0.1)), suspect(0.4, Phase.DATA_WAIT, 12))
    assert found == pytest.approx([0.3])


def test_a_change_that_names_no_line_may_be_about_any():
    assert left(removes(0, 0.1, 0.3), suspect(0.2, Phase.OTHER, 20)) == [0.0]


def test_a_risk_is_about_no_time():
    assert left(None, suspect(0.2, Phase.OTHER, 20), places=(at(20),)) == [0.2]

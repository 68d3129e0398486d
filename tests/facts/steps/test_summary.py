from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfdoctor.facts.steps import boundaries
from perfdoctor.facts.steps.summary import boot_of, quantiles, step_facts
from perfdoctor.model.measured import Phase
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.step_rows import DISTURBED, ROLLED_UP
from tests.support.records import MS, backward, row, rows, update


def of_events(*entries):
    return RankRecords(0, None, None, entries)


def summary(described, begin_ns=None, end_ns=None):
    found = boundaries.find(rows(described))
    assert found is not None
    return step_facts(found, begin_ns, end_ns)


def test_the_mean_is_wall_time_over_steps():
    facts = summary([update(10), update(30), update(20)])
    assert (facts.count, facts.mean_s, facts.median_s, facts.wall_s) == pytest.approx((3, 0.02, 0.02, 0.06))


def test_disturbed_steps_are_counted_and_not_timed():
    facts = summary([update(10), update(500, flags=DISTURBED), update(10)])
    assert (facts.count, facts.mean_s, facts.p95_s) == pytest.approx((3, 0.01, 0.01))
    assert facts.wall_s == pytest.approx(0.03)  # as if there had been no window: the phases add up to it


def test_disturbed_steps_keep_the_validation_that_fell_into_them():
    described = [update(10), update(500, flags=DISTURBED, validation=300), update(10), update(10)]
    facts = summary(described)
    assert facts.seconds[Phase.VALIDATION] == pytest.approx(0.3 / 4)
    assert (facts.mean_s, facts.wall_s) == pytest.approx((0.53 / 4, 0.53))
    other = summary([*described, update(110, validation=100)])
    assert other.seconds[Phase.VALIDATION] == pytest.approx(0.2 / 5)  # no longer than it takes undisturbed


def test_disturbed_steps_keep_what_went_on_beside_the_validation_that_fell_into_them():
    joined = update(9310, flags=DISTURBED, validation=300)  # outputs of the passes, for 9 s
    facts = summary([update(10), joined, update(500, flags=DISTURBED), update(10), update(10)])
    left_s = facts.seconds[Phase.OTHER] * 5
    plain_s = summary([update(10)]).seconds[Phase.OTHER]
    assert left_s == pytest.approx(9.01 + 4 * plain_s)  # of the step without a validation, as of any other
    assert facts.wall_s == pytest.approx(9.31 + 0.04)


def test_beside_a_validation_goes_on_no_longer_than_where_nothing_disturbs_it():
    disturbed, undisturbed = update(9310, flags=DISTURBED, validation=300), update(2310, validation=300)
    facts = summary([update(10), disturbed, undisturbed, update(10)])
    plain_s = summary([update(10)]).seconds[Phase.OTHER]
    assert facts.seconds[Phase.OTHER] * 4 == pytest.approx(2 * 2.01 + 2 * plain_s)


def test_a_disturbed_step_without_a_validation_stands_for_one_without():
    described = [update(10), update(2310, validation=300), update(10, flags=DISTURBED), update(10)]
    facts = summary(described)
    assert (facts.seconds[Phase.OTHER], facts.wall_s) == pytest.approx((2.04 / 4, 2.31 + 0.03))


def test_if_all_steps_were_disturbed_they_are_all_there_is():
    assert summary([update(10, flags=DISTURBED)] * 3).mean_s == pytest.approx(0.01)


def test_rolled_up_rows_weigh_as_many_steps_as_they_stand_for():
    facts = summary([update(10), update(10), update(300, flags=ROLLED_UP, marks=10)])
    assert (facts.count, facts.mean_s, facts.median_s) == pytest.approx((12, 0.32 / 12, 0.03))


def test_start_up_and_tail_surround_the_steps():
    facts = summary([update(10), row(4, 5)], begin_ns=400 * MS, end_ns=1100 * MS)
    assert (facts.startup_s, facts.tail_s) == pytest.approx((0.6, 0.085))


def test_a_process_whose_end_was_not_seen_has_no_known_tail():
    assert summary([update()]).tail_s is None


def test_counts_are_per_step():
    described = [backward(5, backwards=1), backward(5, fresh=False, backwards=1), update(1)]
    facts = summary([*described, update(10, backwards=2, samples=64, process_cpu_ns=15 * MS)])
    assert facts.backwards_per_step == 2
    assert facts.samples_per_s == pytest.approx(64 / 0.021)
    assert facts.process_cpu_s == pytest.approx(0.0075)


def test_the_first_and_last_known_loss():
    facts = summary([update(loss=math.nan), update(loss=2.5), update(loss=1.5), update()])
    assert (facts.first_loss, facts.last_loss) == (2.5, 1.5)


def test_a_steady_run_does_not_drift_though_its_batches_come_in_bursts():
    assert summary([update(1), update(19)] * 100).drift < 0.05


def test_a_run_that_slows_down_drifts():
    assert summary([update(10)] * 100 + [update(40)] * 100).drift > 0.4


def test_validation_comes_in_lumps_and_is_no_drift():
    epoch = [update(10)] * 35 + [update(1010, validation=1000)]
    assert summary(epoch * 4).drift < 0.05


@pytest.mark.parametrize(("at", "expected"), [(0.5, 1.0), (0.95, 9.0)])
def test_quantiles_weigh_their_values(at, expected):
    assert quantiles(np.array([9.0, 1.0]), np.array([1.0, 9.0]), (at,)) == (expected,)


@settings(deadline=None)
@given(
    st.lists(
        st.builds(
            lambda ms, parts, flags, marks: update(ms, flags=flags, marks=marks, **parts),
            st.floats(0, 1e4),
            st.fixed_dictionaries(
                {name: st.floats(0, 1e4) for name in ("data_wait", "forward", "backward", "validation")}
            ),
            st.integers(0, 15),
            st.integers(1, 5),
        ),
        min_size=1,
        max_size=30,
    )
)
def test_phases_are_shares_of_the_mean_step_whatever_the_rows_say(described):
    facts = summary(described)
    assert sum(facts.seconds.values()) == pytest.approx(facts.mean_s, abs=1e-9)
    assert all(0 <= facts.share(phase) <= 1 + 1e-9 for phase in Phase)
    assert all(math.isfinite(value) for value in (facts.mean_s, facts.median_s, facts.p95_s, facts.drift))


def test_a_step_of_no_length_has_no_shares():
    empty = replace(summary([update(10)]), mean_s=0.0)
    assert empty.share(Phase.FORWARD) == 0.0


def test_the_boot_record_is_that_of_the_process_that_trained():
    boots = [{"pid": 1}, {"pid": 2}]
    assert boot_of(of_events({"event": "optimizer", "pid": 2}), boots) == {"pid": 2}
    assert boot_of(of_events(), boots) == {"pid": 1}
    assert boot_of(of_events(), []) is None

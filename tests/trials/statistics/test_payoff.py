from __future__ import annotations

import pytest

from perfdoctor.trials.statistics import payoff
from tests.support.trial_runs import execution


def test_a_longer_warm_up_pays_off_where_the_time_gained_has_made_up_for_it() -> None:
    original = execution(0.1, start_s=3.0, warm_up_s=0.5, warm_up_steps=5, samples_per_s=None)
    compiled = execution(0.05, start_s=3.0, warm_up_s=20.25, warm_up_steps=5, samples_per_s=None)
    # 3.5 + (n - 5) * 0.1 = 23.25 + (n - 5) * 0.05
    assert payoff.pays_off([original] * 3, [compiled] * 3) == 400


def test_with_other_batches_it_is_counted_in_samples_and_told_in_the_originals_steps() -> None:
    original = execution(0.1, warm_up_s=0.5, samples_per_s=80.0)  # 8 in a step
    larger = execution(0.15, warm_up_s=10.5, samples_per_s=16 / 0.15)
    steps_ = payoff.pays_off([original] * 3, [larger] * 3)
    assert steps_ is not None
    done = steps_ * 8
    assert 3.5 + (done - 40) / 80 == pytest.approx(13.5 + (done - 80) / (16 / 0.15), abs=0.1)


def test_nothing_is_to_be_earned_back_without_a_gain_or_without_a_longer_warm_up() -> None:
    original = execution(0.1, warm_up_s=0.5)
    assert payoff.pays_off([original] * 3, [execution(0.1, warm_up_s=9.0)] * 3) is None
    assert payoff.pays_off([original] * 3, [execution(0.05, warm_up_s=0.4)] * 3) is None


def test_a_start_that_differs_as_starts_do_is_no_longer_warm_up() -> None:
    originals = [execution(0.1, start_s=3.0), execution(0.1, start_s=3.4), execution(0.1, start_s=3.1)]
    variants = [execution(0.05, start_s=3.2), execution(0.05, start_s=3.5), execution(0.05, start_s=3.6)]
    assert payoff.pays_off(originals, variants) is None

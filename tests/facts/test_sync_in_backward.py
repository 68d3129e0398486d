from __future__ import annotations

import pytest

from perfdoctor.facts.sync_in_backward import exchanging
from perfdoctor.model.measured import Phase

SPENT = {Phase.FORWARD: 0.02, Phase.BACKWARD: 0.02, Phase.GRAD_SYNC: 0.06}


@pytest.mark.parametrize("stacks", [[80], [40, 40], [1] * 80])
def test_however_few_samples_a_stack_has_all_of_them_together_are_divided_as_the_timers_tell(stacks):
    counts = exchanging(stacks, SPENT, {Phase.FORWARD: 20, Phase.BACKWARD: 80})
    assert sum(counts) == 60
    assert all(0 <= count <= stack for count, stack in zip(counts, stacks, strict=True))


def test_samples_in_collectives_of_the_scripts_own_account_for_their_part():
    seen = {Phase.FORWARD: 20, Phase.BACKWARD: 20, Phase.GRAD_SYNC: 60}
    assert exchanging([20], SPENT, seen) == [0]
    assert exchanging([50], SPENT, {**seen, Phase.BACKWARD: 50, Phase.GRAD_SYNC: 30}) == [30]


def test_without_steps_or_without_an_exchange_backward_stays_whole():
    assert exchanging([9], {}, {Phase.BACKWARD: 9}) == exchanging([9], {Phase.BACKWARD: 1.0}, {}) == [0]

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfdoctor.facts.steps import boundaries
from perfdoctor.facts.steps.tenths import phase_tenths
from perfdoctor.model.measured import Phase
from perfdoctor.wire.step_rows import DISTURBED, ROLLED_UP
from tests.support.records import rows, update


def cut(described):
    found = boundaries.find(rows(described))
    assert found is not None
    return phase_tenths(found)


def of(phase, tenths):
    return [round(shares[phase], 3) for shares in tenths.shares]


def test_shares_are_those_of_each_tenth_whatever_its_length():
    early = [update(10, data_wait=9, forward=1)] * 60
    tenths = cut([*early, *[update(40, data_wait=4, forward=36)] * 50])
    assert of(Phase.DATA_WAIT, tenths) == [0.9] * 5 + [0.1] * 5


def test_warm_up_is_left_out():
    tenths = cut([update(500, data_wait=500)] * 11 + [update(10, forward=10)] * 100)
    assert of(Phase.FORWARD, tenths) == [1.0] * 10


def test_lumps_are_spread_over_all_tenths():
    epoch = [update(10, forward=10)] * 34 + [update(350, forward=10, validation=340)]
    shares = of(Phase.VALIDATION, cut(epoch * 4))
    assert max(shares) - min(shares) < 0.03
    assert sum(shares) / 10 == pytest.approx(0.5, abs=0.03)


def test_disturbed_steps_do_not_count():
    tenths = cut([update(10, forward=10), update(900, data_wait=900, flags=DISTURBED)] * 50)
    assert of(Phase.FORWARD, tenths) == [1.0] * 10


def test_fewer_rows_than_tenths_tell_nothing():
    assert cut([update(10, forward=10)] * 9) is None


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40), st.booleans()), min_size=20, max_size=60))
def test_the_phases_of_each_tenth_add_up_to_it(described):
    tenths = cut(
        update(data + other + 1, data_wait=data, flags=ROLLED_UP if many else 0, marks=7 if many else 1)
        for data, other, many in described
    )
    shares = tenths.shares if tenths is not None else ()  # rows that stand for many steps: few after warm-up
    assert all(sum(tenth.values()) == pytest.approx(1.0) for tenth in shares)

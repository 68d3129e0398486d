from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perfdoctor.diagnosis.combination import Saving, by_kinds, in_all, together
from perfdoctor.model.change import NOTHING, Change, Estimate, removes
from perfdoctor.model.concluded import Bottleneck

DATA, TRANSFER, COMPUTE, HOST = Bottleneck.DATA, Bottleneck.TRANSFER, Bottleneck.COMPUTE, Bottleneck.HOST
HALVES = {DATA: 0.5, COMPUTE: 0.5}
ALL = Estimate(1.0, 1.0, 1.0)


def parts(*changes, kinds=(DATA,)):
    return [Saving(change, kinds) for change in changes]


def shares(estimate):
    return pytest.approx((estimate.low, estimate.likely, estimate.high))


def test_one_change_alone_is_what_it_is():
    alone = Change(step=Estimate(0.1, 0.2, 0.9), workers=3)
    assert together(parts(alone), HALVES) is alone


def test_what_acts_on_one_class_takes_at_most_all_of_it():
    both = together(parts(removes(0.1, 0.25, 0.4), removes(0.2, 0.25, 0.4)), HALVES)
    assert shares(both.step) == (0.2, 0.375, 0.5)


def test_what_acts_on_other_classes_adds_up():
    both = together(
        [*parts(removes(0.1, 0.2, 0.3)), *parts(removes(0.1, 0.2, 0.3), kinds=(COMPUTE,))], HALVES
    )
    assert shares(both.step) == (0.2, 0.4, 0.6)


@pytest.mark.parametrize("kinds", [(DATA, TRANSFER), (TRANSFER, DATA)])
def test_a_class_in_common_gives_its_time_once(kinds):
    change = removes(0.35, 0.4, 0.45)
    both = together([*parts(change), *parts(change, kinds=kinds)], {DATA: 0.4, TRANSFER: 0.1, COMPUTE: 0.5})
    assert shares(both.step) == (0.35, 0.5, 0.5)


def test_a_change_of_two_classes_gives_no_other_more_than_its_own_class_has():
    own, bridge = removes(0.2, 0.2, 0.2), removes(0.05, 0.05, 0.05)
    classes = {HOST: 0.25, COMPUTE: 0.75}
    alone = together(parts(own, own, kinds=(HOST,)), classes)
    bridged = together([*parts(own, own, kinds=(HOST,)), *parts(bridge, kinds=(HOST, COMPUTE))], classes)
    assert bridged.step.likely == pytest.approx(alone.step.likely + 0.05)
    assert bridged.step.low == pytest.approx(alone.step.low)


def test_small_changes_between_classes_take_nothing_from_large_ones_within_them():
    classes = {HOST: 0.3, DATA: 0.3, TRANSFER: 0.1, COMPUTE: 0.3}
    large, small = removes(0.25, 0.25, 0.25), removes(0.01, 0.01, 0.01)
    each = [
        *parts(large, kinds=(HOST,)),
        *parts(large, kinds=(DATA,)),
        *parts(small, kinds=(HOST, TRANSFER)),
        *parts(small, kinds=(DATA, TRANSFER)),
    ]
    assert shares(together(each, classes).step) == (0.5, 0.52, 0.52)


def test_what_groups_take_is_summed_over_those_that_have_no_class_in_common():
    groups = by_kinds([((DATA,), 0.1), ((DATA,), 0.2), ((COMPUTE, DATA), 0.4), ((TRANSFER,), 0.3)])
    taken = {kinds: Estimate(sum(each), sum(each), sum(each)) for kinds, each in groups.items()}
    assert shares(in_all(taken, lambda kinds: 0.3 * len(kinds))) == (0.7, 0.9, 0.9)


def test_what_is_removed_is_not_moved_as_well():
    moved = Change(moved=Estimate(0.4, 0.4, 0.4), workers=2)
    both = together(parts(moved, removes(0.5, 0.5, 0.5)), HALVES)
    assert both.step.likely + both.moved.likely == pytest.approx(0.5)
    assert both.step.likely > both.moved.likely > 0


def test_the_cost_of_a_batch_is_paid_once():
    cached, faster = Change(batch=Estimate(0.5, 0.8, 0.9)), Change(batch=Estimate(0.2, 0.5, 0.6))
    both = together(parts(cached, faster), HALVES)
    assert shares(both.batch) == (0.5, 0.9, 1.0)


def test_what_hands_batches_over_is_paid_once():
    bytes_, copies = Change(handed=Estimate(0.4, 0.75, 0.75)), Change(handed=Estimate(0.2, 0.4, 0.5))
    assert shares(together(parts(bytes_, copies), HALVES).handed) == (0.4, 0.85, 1.0)


def test_waits_for_other_loaders_go_beside_what_the_step_saves():
    both = together(parts(Change(others=Estimate(0.1, 0.2, 0.3)), removes(0.1, 0.1, 0.1)), HALVES)
    assert shares(both.others) == (0.1, 0.2, 0.3)
    assert both.step.likely == pytest.approx(0.1)


def test_of_two_settings_the_larger_is_taken():
    both = together(parts(Change(workers=2, prefetch=4), Change(workers=8)), HALVES)
    assert (both.workers, both.prefetch) == (8, 4)


def test_what_makes_a_step_slower_does_so_in_combination():
    both = together(parts(removes(0.2, 0.2, 0.2), removes(-0.1, -0.1, -0.1)), HALVES)
    assert both.step.low == pytest.approx(0.1)
    assert both.step.likely == pytest.approx(0.5 * (1 - 0.6 * 1.2))


ESTIMATES = st.tuples(*[st.floats(0, 1)] * 3).map(lambda three: Estimate(*sorted(three)))
KINDS = st.lists(st.sampled_from(list(Bottleneck)), max_size=2, unique=True).map(tuple)


@given(st.lists(st.tuples(KINDS, ESTIMATES, ESTIMATES), min_size=2, max_size=5))
@example(
    [
        ((), NOTHING, NOTHING),
        ((DATA,), ALL, NOTHING),
        ((TRANSFER,), ALL, NOTHING),
        ((DATA, TRANSFER), NOTHING, NOTHING),
    ]
)
def test_a_combination_is_an_estimate_and_takes_no_more_than_its_parts_would_add_up_to(given):
    made = [Saving(Change(step=step, batch=batch), kinds) for kinds, step, batch in given]
    both = together(made, dict.fromkeys(Bottleneck, 0.2))
    for found, single in ((both.step, [s for _, s, _ in given]), (both.batch, [b for *_, b in given])):
        assert found.low <= found.likely + 1e-9
        assert found.likely <= found.high + 1e-9
        assert found.high <= sum(one.high for one in single) + 1e-9
        assert found.low >= max(one.low for one in single) - 1e-9

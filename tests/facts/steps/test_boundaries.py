from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfdoctor.facts.steps import boundaries
from perfdoctor.model.measured import Marker, Phase
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.step_rows import DISTURBED, FRESH, ROLLED_UP, SKIPPED
from tests.support.records import MS, backward, row, rows, update


def count(described):
    found = boundaries.find(rows(described))
    return 0 if found is None else float(found.weight.sum())


def updates(*optimizers):
    return [update(optimizer=optimizer) for optimizer in optimizers]


def test_a_plain_loop_counts_every_update():
    assert count(updates(*[1] * 25)) == 25


@pytest.mark.shows("many-optimizers")
def test_a_gan_counts_pairs():
    assert count(updates(*[1, 2] * 12)) == 12


def test_an_unfinished_period_belongs_to_the_tail():
    found = boundaries.find(rows(updates(*[1, 2] * 12, 1)))
    assert found is not None
    assert found.weight.sum() == 12
    assert found.end_ns[-1] == (1000 + 240) * MS


@pytest.mark.parametrize("critic", [2, 5, 20, 40])
def test_a_wgan_counts_updates_of_the_generator(critic):
    assert count(updates(*([1] * critic + [2]) * 6)) == 6


def test_a_wgan_that_trains_its_critic_longer_at_first_still_counts_the_generator():
    assert count(updates(*[1] * 30, 2, *([1] * 5 + [2]) * 40)) == 41


def test_a_wgan_that_counts_anew_with_each_epoch_counts_the_generator():
    assert count(updates(*([1, 2] + [1] * 5 + [2] + [1] * 5 + [2, 1]) * 3)) == 9


def test_a_network_that_is_trained_ahead_counts_its_own_updates():
    assert count(updates(*[1] * 200, *[1, 2] * 200)) == pytest.approx(400, abs=1)


@pytest.mark.parametrize(
    ("samples", "known"),
    [
        ([8] * 20, True),
        ([8] * 10 + [0] * 10, False),  # itertools.cycle gives them again
        ([64] + [0] * 19, False),  # loaded once
        ([64, 0, 0, 0, 0] * 4, True),  # several updates on one batch
        ([8] * 19 + [0], True),  # a loader that runs ahead
    ],
)
def test_samples_are_unknown_where_steps_go_on_long_after_the_last_ones(samples, known):
    found = boundaries.find(rows([update(samples=count, batches=int(count > 0)) for count in samples]))
    assert found is not None
    assert list(found.samples) == (samples if known else [0] * 20)


def test_two_updates_each_are_one_step():
    assert count(updates(*[1, 1, 2, 2] * 8)) == 8


def test_a_pattern_that_opens_with_its_rarest_optimizer_counts_whole_periods():
    assert count(updates(*[1, 2, 2] * 7)) == 7


def test_a_pattern_that_opens_with_its_rarest_optimizer_leaves_a_partial_one_out():
    assert count(updates(*[1, 2, 2] * 7, 1, 2)) == 7


@pytest.mark.parametrize("turns", [(100,), (10, 10), (3, 3, 3)], ids=str)
def test_optimizers_of_different_phases_count_every_update(turns):
    ids = [optimizer for turn in turns for optimizer in [1] * turn + [2] * turn]
    assert count(updates(*ids)) == len(ids)


def test_an_optimizer_that_steps_once_an_epoch_does_not_hide_the_pattern():
    assert count(updates(*([1, 2] * 100 + [3]) * 3)) == 300


def test_an_irregular_sequence_counts_every_update():
    ids = [1, 2, 2, 1, 1, 1, 2, 1, 2, 2, 2, 1, 2, 1, 1, 2, 1, 1, 1, 1, 2, 2, 1, 2]
    assert count(updates(*ids)) == len(ids)


def test_accumulated_backwards_before_the_first_update_are_part_of_its_step():
    described = [backward(5), backward(5, fresh=False), backward(5, fresh=False), update(1)]
    assert count([*described, *updates(1, 1, 1)]) == 4


def test_whole_groups_of_backwards_before_the_first_update_are_steps():
    later = [update(10, backwards=1)] * 3
    assert count([backward(), backward(), backward(), update(1), *later]) == 6


def test_backwards_of_the_first_update_that_change_parameters_are_its_own():
    later = [update(10, backwards=2)] * 3
    assert count([backward(), backward(), update(1), *later]) == 4


def test_backwards_without_an_optimizer_merge_until_parameters_change():
    group = [backward(), backward(fresh=False)]
    assert count(group * 6) == 6


def test_the_last_backward_counts():
    assert count([backward()] * 7) == 7


@pytest.mark.parametrize("marker", [Marker.BATCH, Marker.CALL])
def test_weaker_markers_are_a_step_each(marker):
    assert count([row(Marker.OPEN, 3), *[row(marker, 2)] * 5, row(Marker.END, 1)]) == 5


def test_the_first_step_begins_where_its_loader_started():
    described = [
        row(Marker.OPEN, 100),
        row(Marker.BATCH, 7),
        row(Marker.OPEN, 50),
        row(Marker.CALL, 3),
        backward(2),
        update(1),
    ]
    found = boundaries.find(rows([*described, update(10)]))
    assert found is not None
    assert (found.begin_ns[0], found.end_ns[0]) == (1157 * MS, 1163 * MS)


def test_data_that_is_loaded_once_for_all_steps_is_there_before_the_first_one():
    loads = [row(Marker.OPEN, 1), update(110, data_wait=90, forward=15, batches=1)]
    once = boundaries.find(rows([*loads, *updates(1, 1, 1)]))
    assert (once.fed_once, once.loaded_s) == (True, pytest.approx(0.09))
    assert once.seconds.tolist() == pytest.approx([0.02, 0.01, 0.01, 0.01])
    assert (once.phases[Phase.DATA_WAIT].sum(), once.phases[Phase.OTHER][0]) == (0, pytest.approx(0.005))


@pytest.mark.parametrize("later", [[], [update(10), update(10, batches=1)]], ids=["no-step", "a-batch"])
def test_a_batch_that_others_may_follow_is_the_first_steps_own(later):
    found = boundaries.find(rows([update(110, data_wait=90, batches=1), *later]))
    assert (found.fed_once, found.loaded_s) == (False, 0.0)
    assert found.phases[Phase.DATA_WAIT][0] == pytest.approx(0.09)


def test_rolled_up_rows_stand_for_their_updates():
    described = [*updates(*[1, 2] * 10), *[update(100, optimizer=2, flags=ROLLED_UP, marks=20)] * 3]
    assert count(described) == 10 + 30


def test_rolled_up_backwards_stand_for_their_steps():
    group = [backward(), backward(fresh=False)]
    described = [*group * 5, row(Marker.BACKWARD, 100, flags=ROLLED_UP | FRESH, marks=20)]
    assert count(described) == pytest.approx(5 + 10, rel=0.35)


def test_flags_are_gathered_per_step():
    found = boundaries.find(rows([update(), update(flags=DISTURBED), update(flags=SKIPPED)]))
    assert found is not None
    assert found.disturbed.tolist() == [False, True, False]
    assert found.skipped_updates == 1


def test_other_is_what_the_phases_leave():
    found = boundaries.find(rows([update(10, forward=3, backward=4, optimizer_ns=1)]))
    assert found is not None
    assert found.phases[Phase.OTHER][0] == pytest.approx(0.002)


def test_the_last_known_loss_of_a_step_is_its_loss():
    found = boundaries.find(
        rows([update(optimizer=1, loss=2.0), update(optimizer=2), *updates(1, 2), *updates(1, 2)])
    )
    assert found is not None
    assert found.loss[0] == 2.0
    assert np.isnan(found.loss[1])


@pytest.mark.parametrize(
    "described", [[], [row(Marker.END, 5)], [row(Marker.OPEN, 5)]], ids=["empty", "end", "open"]
)
def test_nothing_that_trains_is_no_step(described):
    assert boundaries.find(rows(described)) is None


def test_a_missing_file_or_an_alien_one_is_no_step():
    assert boundaries.find(None) is None
    assert boundaries.find(np.zeros(3, dtype=[("end_ns", "<i8")])) is None


MARKERS = st.sampled_from([Marker.OPEN, Marker.CALL, Marker.BATCH, Marker.BACKWARD, Marker.UPDATE])
DURATIONS = st.floats(0, 1e4)
ROW = st.fixed_dictionaries(
    {
        "marker": MARKERS,
        "ms": DURATIONS,
        "flags": st.integers(0, 31),
        "optimizer": st.integers(0, 4),
        "marks": st.integers(1, 9),
        "forward": DURATIONS,
        "data_wait": DURATIONS,
        "loss": st.floats(),
    }
)


@given(st.lists(ROW, max_size=40))
def test_phases_partition_every_step_whatever_the_rows_say(described):
    found = boundaries.find(rows(described))
    if found is None:
        return
    total = np.sum(list(found.phases.values()), axis=0)
    np.testing.assert_allclose(total, found.seconds, atol=1e-9)
    assert all(np.all(values >= 0) for values in found.phases.values())
    assert np.array_equal(found.begin_ns[1:], found.end_ns[:-1])
    assert np.all(found.weight >= 1)


@given(st.lists(st.integers(1, 3), min_size=1, max_size=6), st.integers(8, 20))
def test_a_repeated_pattern_is_a_step_or_a_part_of_one(pattern, times):
    steps_found = count(updates(*pattern * times))
    assert times - 1 <= steps_found <= len(pattern) * times


def test_an_optimizer_that_steps_a_part_at_a_time_makes_one_step_a_backward():
    parts = [update(backwards=1), update(backwards=0), update(backwards=0)]
    found = boundaries.find(rows(parts * 8))
    assert found is not None
    assert (found.weight.sum(), found.per_step) == (8, 3)


def test_updates_without_backwards_are_steps_where_no_backward_was_seen_between_any():
    assert count([update(backwards=1), *[update(backwards=0)] * 7]) == 8


def test_other_optimizers_without_a_backward_of_their_own_are_told_by_the_pattern():
    assert count([update(optimizer=1, backwards=1), update(optimizer=2, backwards=0)] * 8) == 8


@pytest.mark.shows("many-optimizers")
def test_however_many_optimizers_apply_one_backward_make_one_step():
    step = [update(optimizer=1, backwards=1), *[update(optimizer=n, backwards=0) for n in range(2, 101)]]
    found = boundaries.find(rows(step * 8))
    assert found is not None
    assert (found.weight.sum(), found.per_step) == (8, 100)


def test_an_end_amid_the_updates_of_one_backward_makes_no_step_of_those_before_it():
    step = [update(optimizer=1, backwards=1), update(optimizer=2, backwards=0)]
    found = boundaries.find(rows([*step * 8, update(optimizer=1, backwards=1)]))
    assert found is not None
    assert (found.weight.sum(), found.per_step) == (8, 2)


def test_an_optimizer_that_applies_only_every_other_backward_halves_no_steps():
    both = [update(optimizer=1, backwards=1), update(optimizer=2, backwards=0)]
    assert count([update(optimizer=1, backwards=1), *both] * 8) == 16


def test_an_update_by_another_optimizer_after_a_batch_of_its_own_is_told_by_the_pattern():
    turns = [update(optimizer=1, backwards=1)] * 3 + [update(optimizer=2, backwards=0, batches=1)] * 3
    assert count(turns * 8) == 8


def test_of_batches_of_one_that_models_are_given_as_many_rows_no_samples_are_counted():
    steps = rows([update(10, samples=1)] * 20)
    of_one = {"event": "batch_layout", "rows": 512, "columns": 13, "of_one": True}
    assert boundaries.of_rank(RankRecords(0, steps, None, ())).samples.sum() == 20
    assert not boundaries.of_rank(RankRecords(0, steps, None, (of_one,))).samples.any()

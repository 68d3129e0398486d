from __future__ import annotations

import pytest

from perfdoctor.tips.slow_validation_loader import slow_validation_loader as tip
from tests.support import facts
from tests.support.facts import cpu, loader, model, step
from tests.support.load_facts import held_back

STEP = step(data_wait=4.5, forward=5, backward=7, validation=1, cpu=16)
TRAINING = loader(workers=4, batch=12, other_wait_s=0.004)


def judge(slow, of_loader=TRAINING, of_step=STEP, cores=8):
    of_cpu = cpu(cores=cores)
    return tip(of_step, of_loader, slow, model(of_step, of_loader, of_cpu), of_cpu)


def gain(slow, of_loader=TRAINING, cores=8):
    return facts.gain(judge(slow, of_loader, cores=cores), model(STEP, of_loader, cpu(cores=cores)))


def test_names_the_wait_both_loaders_and_what_a_batch_costs():
    advice = judge(held_back())
    assert advice.because == (
        "23% of the training time waits for batches of validation",
        "its loader has num_workers=0, the training loader 4",
        "a batch of it costs 20.0 ms, and validation computes 5.0 ms on it",
    )
    assert [at.line for at in advice.at] == [43]
    assert advice.code == "DataLoader(..., num_workers=4, persistent_workers=True)"
    assert advice.tweak == "--workers 4 --persistent-workers"
    assert advice.takes == pytest.approx(4.0 / 17.5)


def test_expects_what_the_same_workers_leave_of_the_wait():
    found = gain(held_back())
    assert 1.05 < found.low <= found.likely <= found.high <= 17.5 / 13.5 + 0.01
    assert found.likely > 1.15  # workers prepare a batch in 5 ms, while validation computes on another


def test_expects_less_where_there_is_no_core_for_them():
    assert gain(held_back(), cores=2).likely < gain(held_back()).likely - 0.03


def test_expects_less_of_more_workers_where_there_are_some():
    some = held_back(workers=1, batch=20, wait=3)
    assert 1.02 < gain(some).likely < gain(held_back()).likely


def test_a_loader_built_anew_for_every_pass_is_to_be_kept():
    advice = judge(held_back(built=5))
    assert advice.because[-1] == "the line builds 5 loaders: keep one, so that its workers live on"


def test_an_iterable_dataset_is_advised_without_a_tweak():
    advice = judge(held_back(iterable=True))
    assert (advice.tweak, advice.same_result) == (None, False)


@pytest.mark.parametrize(
    ("slow", "of_loader"),
    [
        pytest.param(held_back(workers=4), TRAINING, id="as-many-workers-as-it-can-use"),
        pytest.param(held_back(wait=0.5), loader(workers=4, batch=12, other_wait_s=0.0005), id="short-wait"),
    ],
)
def test_is_silent(slow, of_loader):
    assert judge(slow, of_loader) is None


def test_is_silent_where_no_core_is_left_for_more_workers():
    assert judge(held_back(workers=2), loader(workers=2, batch=12, other_wait_s=0.004), cores=2) is None


def test_is_silent_where_nothing_is_validated():
    assert judge(held_back(), of_step=step(data_wait=4.5, forward=5, backward=8, cpu=16)) is None


def test_validation_that_waits_gets_workers_where_training_from_memory_needs_none():
    from_memory = loader(batch=0.2, other_wait_s=0.004)
    advice = judge(held_back(), from_memory)
    assert advice.because[1] == "its loader has num_workers=0, the training loader 0"
    assert advice.code == "DataLoader(..., num_workers=4, persistent_workers=True)"
    assert advice.tweak is None  # handing a batch over would take training longer than making it
    assert 1.15 < gain(held_back(), from_memory).likely < 17.5 / 13.5


def test_validation_without_a_backward_gets_more_workers_than_training_needs():
    enough = loader(workers=2, batch=12, other_wait_s=0.004)
    advice = judge(held_back(workers=2), enough)
    assert advice.code == "DataLoader(..., num_workers=4, persistent_workers=True)"
    assert advice.tweak == "--workers 4 --persistent-workers"  # as many for training do no harm there
    assert 1.03 < gain(held_back(workers=2), enough).likely < 1.1


def test_a_training_set_that_may_not_share_itself_out_keeps_its_workers():
    advice = judge(held_back(workers=2), loader(workers=2, batch=12, other_wait_s=0.004, iterable=True))
    assert (advice.tweak, advice.same_result) == (None, True)

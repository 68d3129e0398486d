from __future__ import annotations

import pytest

from perfdoctor.facts.data.handed_on import HandedOnFacts
from perfdoctor.model.measured import Location
from perfdoctor.tips.too_few_workers import too_few_workers as tip
from tests.support import facts
from tests.support.facts import LOADER_LINE, cpu, loader, model, step

NOT_HANDED_ON = HandedOnFacts()
STARVED = step(data_wait=12, forward=3, backward=5, cpu=19)


def judge(of_step, of_loader, of_cpu, handed_on=NOT_HANDED_ON):
    return tip(of_step, of_loader, of_cpu, model(of_step, of_loader, of_cpu), handed_on)


def gain(of_step, of_loader, of_cpu):
    return facts.gain(judge(of_step, of_loader, of_cpu), model(of_step, of_loader, of_cpu))


def test_names_the_wait_the_batch_and_the_cores():
    advice = judge(STARVED, loader(batch=12), cpu(cores=8, busy=1))
    assert advice is not None
    assert advice.because == (
        "60% of each step waits for the next batch",
        "num_workers is 0: the training process prepares every batch itself",
        "a batch costs 12.0 ms, 12.0 ms of it CPU time",
        "8 cores are usable, of which this run keeps 1.0 busy",
    )
    assert advice.at == (LOADER_LINE,)
    assert advice.code == "DataLoader(..., num_workers=2, persistent_workers=True)"
    assert advice.arguments == "dataloader_num_workers=2, dataloader_persistent_workers=True"


def test_waits_that_more_workers_leave_as_they_are_are_named_where_they_count():
    late = step(data_wait=14, forward=2, backward=4, cpu=8)
    given = {"workers": 1, "batch": 14, "epoch_wait_s": 0.002}
    advice = judge(late, loader(**given), cpu(cores=8, busy=1))
    assert advice.because[0] == "60% of each step waits for the next batch, not counting the starts of epochs"
    advice = judge(late, loader(**given, other_wait_s=0.001), cpu(cores=8, busy=1))
    assert advice.because[0].endswith(
        "55% of each step waits for the next batch, not counting the starts of epochs and other loaders"
    )


def test_what_is_waited_for_loaders_that_feed_the_same_steps_counts_and_may_go_as_well():
    late = step(data_wait=24, forward=3, backward=5, cpu=31)
    advice = judge(late, loader(batch=12, beside_wait_s=0.012), cpu(cores=8, busy=1))
    assert advice.because[0] == "75% of each step waits for the next batch"
    others = advice.change.others
    assert (others.low, others.likely, others.high) == (0.0, pytest.approx(0.375), pytest.approx(0.375))
    assert gain(late, loader(batch=12, beside_wait_s=0.012), cpu(cores=8, busy=1)).likely > 3


def test_recommends_the_knee_and_not_every_core():
    advice = judge(STARVED, loader(batch=12), cpu(cores=32, busy=1))
    assert advice is not None
    assert advice.tweak == "--workers 2"


def test_expects_nearly_the_whole_wait_back_when_workers_outrun_the_step():
    assert 2.0 < gain(STARVED, loader(batch=12), cpu(cores=8, busy=1)).likely <= 2.5


def test_expects_less_where_the_workers_fight_with_the_training_step():
    two_threads = step(data_wait=12, forward=3, backward=5, cpu=28)
    # 28 ms of CPU work need 14 ms on two cores, whatever the arrangement
    assert 1.0 < gain(two_threads, loader(batch=12), cpu(cores=2, busy=1.4)).likely <= 20 / 14


def test_finds_room_for_readers_that_wait_for_a_disk_even_on_busy_cores():
    waiting = step(data_wait=12, forward=3, backward=5, cpu=17)
    assert gain(waiting, loader(batch=12, cpu=1), cpu(cores=2, busy=0.9)).likely > 2.0


def test_more_workers_for_a_loader_that_has_some():
    late = step(data_wait=6, forward=2, backward=2, cpu=8)
    advice = judge(late, loader(workers=1, batch=9.5), cpu(cores=8, busy=1.7))
    assert advice is not None
    assert advice.tweak == "--workers 3"  # two would still take 4.75 ms for what the step takes 4 ms


def test_an_iterable_dataset_is_advised_without_a_tweak():
    advice = judge(STARVED, loader(batch=12, iterable=True), cpu(cores=8))
    assert advice is not None
    assert advice.tweak is None
    assert not advice.same_result


@pytest.mark.parametrize(
    ("of_step", "of_loader", "of_cpu"),
    [
        pytest.param(
            step(data_wait=1.5, forward=8.6, backward=9.9, cpu=20),
            loader(batch=1.5),
            cpu(),
            id="wait-is-noise",
        ),
        pytest.param(
            step(data_wait=2, forward=8, backward=10, cpu=38),
            loader(batch=2),
            cpu(cores=2, busy=1.9),
            id="cores-are-busy",
        ),
        pytest.param(
            step(data_wait=0.3, forward=1, cpu=1.3), loader(batch=0.3), cpu(), id="receiving-costs-as-much"
        ),
        pytest.param(
            step(data_wait=6, forward=4, cpu=5),
            loader(workers=2, batch=6, epoch_wait_s=0.0058),
            cpu(),
            id="waits-at-epoch-starts",
        ),
        pytest.param(
            step(data_wait=6, forward=4, cpu=10),
            loader(batch=1, other_wait_s=0.0055),
            cpu(),
            id="waits-for-validation",
        ),
    ],
)
def test_is_silent(of_step, of_loader, of_cpu):
    assert judge(of_step, of_loader, of_cpu) is None


def test_a_model_that_misses_widens_the_range():
    sound = gain(STARVED, loader(batch=12), cpu())
    odd = gain(STARVED, loader(batch=18), cpu())
    assert odd.high / odd.low > sound.high / sound.low


def test_where_workers_import_the_script_the_code_has_its_guard():
    many = step(count=50_000, data_wait=12, forward=3, backward=5, cpu=19)
    assert "__main__" in judge(many, loader(batch=12, start_method="spawn"), cpu()).code
    assert "__main__" not in judge(many, loader(batch=12, start_method="fork"), cpu()).code


def test_what_restarts_cost_is_no_reason_against_workers_that_are_advised_to_live_on():
    """100 steps an epoch, whose worker takes half a second to start."""
    start_s = 0.5
    of_step = step(count=2000, data_wait=15 + start_s * 10, forward=5, cpu=5)
    waits = {"epoch_start_s": start_s + 0.02, "steady_wait_s": 0.015, "epoch_wait_s": (start_s + 0.02) / 100}
    of_loader = loader(workers=1, batch=20, cpu=2, epochs=20, **waits)
    advice = judge(of_step, of_loader, cpu(cores=8, busy=0.5))
    assert advice is not None
    assert advice.tweak == "--workers 4 --persistent-workers"
    assert 3.0 < gain(of_step, of_loader, cpu(cores=8, busy=0.5)).likely < 4.5


def test_a_loader_that_is_made_for_each_epoch_is_told_to_be_made_once():
    advice = judge(STARVED, loader(batch=12, epochs=5, built=5, anew=True), cpu(cores=8, busy=1))
    assert advice is not None
    assert advice.tweak == "--workers 2"
    assert (
        advice.code
        == "DataLoader(..., num_workers=2, persistent_workers=True)  # made once, before the loop over epochs"
    )


def test_a_wait_for_the_thread_that_hands_the_batches_on_is_one_for_the_workers():
    queued = step(other=12, forward=3, backward=5, cpu=8)
    given = queued, loader(batch=20, workers=1), cpu(cores=8, busy=1)
    assert judge(*given) is None
    at = Location("train.py", 19)
    advice = judge(*given, HandedOnFacts(0.6, at))
    assert advice.because[0] == "60% of each step waits for a thread that hands its batches on"
    assert advice.at == (LOADER_LINE, at)
    assert advice.tweak == "--workers 3"  # of which each wait takes a third
    assert facts.gain(advice, model(*given)).likely == pytest.approx(1 / (1 - 0.6 * 2 / 3))
    assert advice.change.step.low == pytest.approx(0.2)

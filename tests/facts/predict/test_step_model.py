from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfdoctor.facts.host.resources import share_of
from perfdoctor.facts.predict.contention import CpuContention
from perfdoctor.facts.predict.step_model import BEST, LIKELY, WORST, build, of_loop
from perfdoctor.facts.predict.worker_count import good_workers
from perfdoctor.model.change import Change, Estimate, removes
from tests.support.facts import cpu, loader, model, step


def built(workers=0, batch=12.0, wait=12.0, compute=8.0, cores=8.0, step_cpu=None, **given_loader):
    of_step = step(data_wait=wait, forward=compute, cpu=step_cpu or compute + (0 if workers else batch))
    return model(of_step, loader(workers=workers, batch=batch, **given_loader), cpu(cores=cores))


def test_without_workers_the_step_is_compute_and_batch():
    assert built().error == pytest.approx(0.0)


def test_what_a_loader_without_workers_waits_beside_its_batches_no_worker_takes_over():
    sampling = built(batch=2, wait=12, compute=8)  # 10 ms to choose the samples
    assert sampling.error == pytest.approx(0.0)
    assert sampling.step_with(4) > 0.018


def test_with_workers_that_are_late_the_step_is_their_share_of_a_batch():
    late = built(workers=2, batch=40, wait=11.5, compute=8.5)
    assert abs(late.error) < 0.05


def test_with_workers_that_outrun_the_step_the_wait_is_for_receiving():
    quick = built(workers=2, batch=4, wait=1.2, compute=8)
    assert quick.error == pytest.approx(0.0)
    assert quick.transfer_s == pytest.approx(0.0012)


def test_a_wait_that_nothing_explains_is_an_error():
    assert built(workers=2, batch=4, wait=20, compute=8).error < -0.5


def test_waits_for_validation_are_not_the_training_loaders():
    assert built(batch=2, wait=12, other_wait_s=0.010).error == pytest.approx(0.0)


def test_cpu_time_for_batches_of_validation_is_not_the_training_steps():
    validating = {"other_wait_s": 0.006, "others_cpu_s": 0.005}
    for workers, batch_ms in ((0, 2), (2, 0)):  # with workers, batches cost the training process nothing
        found = built(workers=workers, batch=2, wait=8, compute=8, step_cpu=9 + batch_ms, **validating)
        assert found.compute_cpu_s == pytest.approx(0.004)


def test_the_run_as_it_was_is_put_together_again():
    late = built(workers=1, batch=19, wait=11.5, compute=8.5, cores=2, step_cpu=12)
    assert late.step_with(1) == pytest.approx(late.step_s, rel=0.15)


def test_contention_is_taken_out_of_what_was_measured_together():
    crowded = built(workers=1, batch=11.5, cpu=9, wait=2, compute=10, cores=2, step_cpu=15)
    assert crowded.compute_s < 0.010
    assert crowded.data_s < 0.0115


def test_cpu_work_is_never_done_in_less_than_all_cores_need():
    packed = built(batch=12, wait=12, compute=8, cores=2, step_cpu=28)
    assert min(packed.step_with(count, BEST) for count in range(1, 9)) >= 0.014


def test_workers_on_hyper_threads_do_not_do_the_work_of_workers_on_whole_cores():
    late = step(data_wait=400, forward=10, cpu=10), loader(workers=1, batch=410, cpu=400)
    threads, cores = cpu(cores=16, whole_cores=8.0), cpu(cores=16, whole_cores=16.0)
    assert model(*late, cores).step_with(16) == pytest.approx(0.410 / 16, rel=0.05)
    assert model(*late, threads).step_with(16) == pytest.approx(0.410 / 10, rel=0.05)
    assert model(*late, threads).step_with(4) == model(*late, cores).step_with(4)


def test_what_others_take_is_of_what_hyper_threads_are_worth():
    late = step(data_wait=400, forward=10, cpu=10), loader(workers=1, batch=410, cpu=400)
    beside = cpu(cores=16, whole_cores=8.0, other_cores=8.0)
    assert model(*late, beside).cores == pytest.approx(0.75 * 10)


def test_waiting_for_a_disk_is_not_stretched_by_busy_cores():
    reads = built(batch=12, cpu=0.5, wait=12, compute=8, cores=1, step_cpu=8.5)
    assert reads.step_with(4) < 0.012


def test_workers_that_are_new_pay_for_their_start_at_every_epoch():
    once, often = built(epochs=1), built(epochs=50)
    assert often.step_with(2) > once.step_with(2)


def test_the_worst_case_is_never_better_than_the_best():
    crowded = built(cores=2, step_cpu=28)
    assert crowded.step_with(2, BEST) <= crowded.step_with(2, LIKELY) <= crowded.step_with(2, WORST)


ONE_DEAR = (0.5,) * 15 + (8.5,)  # one batch in sixteen costs seventeen times as much as the others


def test_a_longer_queue_is_worth_what_the_simulation_says():
    uneven = built(workers=2, batch=14, p95=100, wait=4, compute=9, spread=ONE_DEAR)
    assert uneven.gain(Change(prefetch=16)).likely > 1.05
    assert built(workers=2, batch=14, wait=4, compute=9).gain(Change(prefetch=16)).likely == pytest.approx(1)


def test_more_workers_take_longer_to_start_at_every_epoch():
    some = built(workers=2, batch=1, wait=3, compute=8, epochs=50, epoch_wait_s=0.002)
    assert some.step_with(8) > some.step_with(2)


def test_the_end_of_the_last_epoch_is_in_no_step():
    once = model(
        step(count=60, data_wait=1, forward=8), loader(workers=2, batch=4, epoch_end_s=0.3), cpu(cores=8)
    )
    assert once.epoch_s == 0.0
    assert once.error == pytest.approx(0.0)
    twice = model(
        step(count=60, data_wait=6, forward=8),
        loader(workers=2, batch=4, epochs=2, epoch_end_s=0.3),
        cpu(cores=8),
    )
    assert twice.epoch_s == pytest.approx(0.3 / 60)
    assert twice.error == pytest.approx(0.0)


def test_the_first_batch_of_an_epoch_is_waited_for_where_several_steps_train_on_it():
    """50 epochs of one batch of 100 ms each, on which ten steps of 8 ms train."""
    reused = built(batch=100, wait=10, compute=8, step_cpu=18, batches_per_step=0.1, epochs=50)
    assert reused.error == pytest.approx(0.0)
    assert reused.step_with(2) == pytest.approx(0.018, rel=0.05)


def test_fewer_workers_than_cores_are_not_credited_with_what_restarting_costs():
    many = built(workers=8, batch=1, wait=3, compute=8, epochs=50, epoch_wait_s=0.002)
    assert many.step_with(2) == pytest.approx(many.step_with(8), rel=0.02)


def test_workers_beyond_the_cores_queue_to_be_started():
    many = built(workers=8, batch=1, wait=3, compute=8, cores=2, epochs=50, epoch_wait_s=0.002)
    assert many.step_with(2) < many.step_with(8) - 0.001


def test_what_goes_from_a_step_that_waits_for_batches_is_no_gain():
    late = built(workers=2, batch=40, wait=11.5, compute=8.5)
    assert late.gain(removes(0.1, 0.1, 0.1)).likely == pytest.approx(1.0, abs=0.02)
    assert late.gain(Change(batch=Estimate(0.5, 0.5, 0.5))).likely > 1.5


def test_waits_for_other_loaders_go_from_any_step():
    late = built(workers=2, batch=40, wait=16.5, compute=8.5, other_wait_s=0.005)
    assert late.gain(Change(others=Estimate(0.2, 0.2, 0.2))).likely == pytest.approx(1.25, rel=0.05)
    assert late.gain(Change(others=Estimate(0.9, 0.9, 0.9))).likely == pytest.approx(1.25, rel=0.05)


def test_what_moves_into_workers_runs_beside_the_step():
    loop = of_loop(step(other=10, forward=10, cpu=20), cpu(cores=8))
    assert loop.gain(Change(moved=Estimate(0.5, 0.5, 0.5), workers=1)).likely == pytest.approx(1.8, abs=0.2)


def test_time_without_a_core_is_no_time_at_a_disk():
    of_step, of_loader = step(data_wait=10, forward=10, cpu=18), loader(workers=2, batch=40, cpu=10)
    disk = model(of_step, of_loader, cpu(cores=2))
    core = model(of_step, of_loader, cpu(cores=2, worker_delay=3.0, main_delay=0.2))
    assert core.data_s == pytest.approx(0.010)
    assert disk.data_s > 0.030


def test_without_workers_what_other_programs_took_is_no_time_at_a_disk():
    of_step = step(data_wait=148, forward=16, cpu=45)
    of_loader = loader(workers=0, batch=148, cpu=38)
    crowd = replace(cpu(cores=2), main_cores=0.27, other_cores=1.5, main_delay=0.7)
    crowded, alone = (
        model(of_step, of_loader, crowd),
        model(of_step, of_loader, replace(crowd, other_cores=0.1)),
    )
    assert crowded.error == alone.error == pytest.approx(0.0)
    assert crowded.data_s == pytest.approx(0.050, rel=0.1)
    assert good_workers(crowded, crowd) <= 2 < good_workers(alone, crowd)


def test_what_training_lost_to_its_workers_comes_back_without_them():
    crowded = model(
        step(data_wait=3, forward=25, cpu=20),
        loader(workers=2, batch=38, cpu=14),
        cpu(cores=2, worker_delay=1.7, main_delay=0.4),
    )
    assert crowded.contention_s == pytest.approx(0.4 * 0.028)
    assert crowded.step_with(2) == pytest.approx(0.028, rel=0.15)
    assert crowded.gain(Change(batch=Estimate(0.9, 0.9, 0.9))).likely > 1.4


def test_what_a_team_spins_for_a_thread_without_a_core_is_no_need():
    of_step, of_loader = step(data_wait=3, forward=25, cpu=50), loader(workers=2, batch=38, cpu=14)
    of_cpu = cpu(cores=2, worker_delay=1.7, main_delay=0.4)
    single, team = (
        build(of_step, of_loader, of_cpu, CpuContention((1.0,) * 3, (1.0,) * 3, threads))
        for threads in (1.0, 2.0)
    )
    assert team.compute_cpu_s == pytest.approx(single.compute_cpu_s - 0.4 * 0.028 / 2)
    without = Change(batch=Estimate(0.9, 0.9, 0.9))
    assert team.gain(without).likely > single.gain(without).likely


def test_measured_sharing_replaces_the_usual_losses():
    of_step, of_loader, of_cpu = step(data_wait=10, forward=10, cpu=30), loader(batch=10), cpu(cores=2)
    gentle, harsh = (
        build(of_step, of_loader, of_cpu, CpuContention((loss,) * 3, (loss,) * 3)) for loss in (0.2, 2.0)
    )
    assert gentle.step_with(1) < harsh.step_with(1)


@given(
    workers=st.integers(0, 8),
    batch=st.floats(0.01, 1e4),
    cpu_share=st.floats(0, 1),
    wait=st.floats(0, 1e4),
    compute=st.floats(0, 1e4),
    cores=st.floats(0.1, 128),
    step_cpu=st.floats(0.001, 1e5),
    p95=st.floats(0, 1e6),
    asked=st.integers(0, 32),
)
def test_predictions_are_finite_and_ordered(
    workers, batch, cpu_share, wait, compute, cores, step_cpu, p95, asked
):
    of_step = step(data_wait=wait, forward=compute + 0.001, cpu=step_cpu)
    built = model(
        of_step, loader(workers=workers, batch=batch, cpu=batch * cpu_share, p95=p95), cpu(cores=cores)
    )
    gain = built.gain(Change(workers=asked))
    assert 0 < gain.low <= gain.likely <= gain.high < float("inf")


@pytest.mark.parametrize(
    ("method", "start_s"), [(None, 0.05), ("fork", 0.05), ("spawn", 2.5), ("forkserver", 2.5)]
)
def test_a_worker_that_is_not_forked_takes_seconds_to_start(method, start_s):
    # of 500 steps
    more_s = built(start_method=method).step_with(2) - built().step_with(2)
    together_s = 2 * start_s if start_s < 1 else start_s  # forked one after the other; else side by side
    assert more_s == pytest.approx((together_s - 2 * 0.05) / 500)


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_no_batch_of_the_next_epoch_is_prepared_while_validation_runs(workers):
    """50 steps an epoch of 2 ms, batches of 20 ms, and a second of validation after each."""

    def real_ms(count):
        return 2 + 20 + 20 if not count else max(2, 20 / count) + 20

    wait = real_ms(workers) - 22
    seen = model(
        step(data_wait=wait, forward=2, validation=20, cpu=3),
        loader(workers=workers, batch=20, cpu=1, epochs=4, persistent_workers=True),
        cpu(cores=8),
    )
    assert abs(seen.error) < 0.02
    for count in (1, 2, 4):
        assert seen.step_with(count) == pytest.approx(real_ms(count) / 1e3, rel=0.07)


def test_a_device_that_computing_waits_for_takes_no_core_from_others():
    def seen(delay):
        busy = replace(cpu(cores=8, busy=0.3), other_cores=3.0, main_cores=0.075, main_delay=delay)
        return model(step(forward=30, data_wait=10, cpu=3), loader(workers=0, batch=10, cpu=2), busy)

    lost_s = seen(delay=None).compute_s - seen(delay=0.05).compute_s
    assert 0 < lost_s <= 0.05 * 0.040


def test_what_the_first_step_takes_longer_hides_no_batch():
    """300 steps; the first compiles for 30 s, then 50 ms of computing and batches of 100 ms from one worker."""
    of_step = replace(step(count=300, data_wait=50, forward=150, cpu=60), first_longer_s=30.0)
    seen = model(of_step, loader(workers=1, batch=100, cpu=5), cpu(cores=8))
    assert abs(seen.error) < 0.02
    assert seen.step_with(1) / seen.step_with(2) == pytest.approx(200 / 150, rel=0.05)


@pytest.mark.parametrize(("ranks", "cores"), [(4, 2.0), (1, 0.5)])
def test_half_a_core_is_no_whole_one(ranks, cores):
    of_rank = share_of(cpu(cores=cores, busy=0.5), ranks)
    seen = model(step(data_wait=20, forward=20, cpu=20), loader(workers=0, batch=20, cpu=10), of_rank)
    assert seen.cores == pytest.approx(0.5)
    assert max(seen.step_with(0) / seen.step_with(count, BEST) for count in (1, 2, 4)) < 1.1


def test_threads_of_a_team_that_lack_cores_at_once_wait_once():
    """6 ms of one thread, then 4 ms of eight, of which four lack a core for 2 ms beside four busy workers."""
    team = CpuContention((1.0, 1.2, 1.6), (0.8, 1.0, 1.2), threads=8.0)
    crowd = replace(cpu(cores=8, busy=7.0), main_delay=8 / 12, worker_delay=0.05)
    seen = build(step(data_wait=0, forward=12, cpu=38), loader(workers=4, batch=44, cpu=44), crowd, team)
    assert seen.contention_s == pytest.approx(0.002, rel=0.2)


def pinned(busy, workers=10, batch=60.0, wait=15.0, compute=3.0, **given_loader):
    of_step = step(data_wait=wait, forward=compute, cpu=compute)
    return build(
        of_step, loader(workers=workers, batch=batch, **given_loader), cpu(16), pins=(busy, busy, busy)
    )


def test_no_number_of_workers_brings_batches_faster_than_one_thread_pins_them():
    as_it_was = pinned(0.97)
    assert as_it_was.error == pytest.approx(-0.03, abs=0.001)
    assert as_it_was.step_with(16) == pytest.approx(0.97 * 0.018)
    assert pinned(0.0).error < -0.5


def test_a_thread_that_pins_beside_the_starts_of_epochs_is_waited_for_no_longer_than_the_steps_take():
    begun = pinned(1.0, epoch_wait_s=0.004)
    assert begun.pinning_s == pytest.approx((0.014, 0.014, 0.014))
    assert begun.error == pytest.approx(0.0)


def test_a_thread_that_pins_beside_a_step_that_takes_longer_costs_nothing():
    beside = pinned(0.3, workers=2, batch=40, wait=12, compute=8)
    assert beside.step_with(2) == pytest.approx(
        pinned(0.0, workers=2, batch=40, wait=12, compute=8).step_with(2)
    )


def test_how_sure_that_floor_is_widens_what_quicker_workers_gain():
    late = step(data_wait=15, forward=3, cpu=3)
    seen = build(late, loader(workers=10, batch=180), cpu(16), pins=(0.2, 0.3, 0.4))
    found = seen.gain(Change(batch=Estimate(0.9, 0.9, 0.9)))
    assert (found.low, found.likely, found.high) == pytest.approx((1 / 0.4, 1 / 0.3, 1 / 0.2))


def test_what_is_handed_over_in_less_time_lowers_that_floor():
    fewer = Change(batch=Estimate(0.5, 0.5, 0.5), handed=Estimate(0.75, 0.75, 0.75))
    assert pinned(1.0).step_after([fewer]) == pytest.approx(0.018 / 4)
    assert pinned(1.0).gain(replace(fewer, handed=Estimate())).likely == pytest.approx(1.0)


def test_what_goes_from_pauses_makes_steps_shorter_that_wait_for_batches():
    of_step = step(data_wait=50, forward=20, checkpoint=30, cpu=50)
    waits = model(of_step, loader(workers=1, batch=70, cpu=10), cpu(cores=8))
    shorter = Change(pauses=Estimate(0.27, 0.27, 0.27))
    assert waits.gain(shorter).likely == pytest.approx(100 / 73, rel=0.03)
    assert waits.gain(removes(0.1, 0.1, 0.1)).likely == pytest.approx(1.0, abs=0.01)  # of computing, hidden


@given(st.floats(0, 0.5), st.floats(0, 0.5), st.floats(0, 30))
def test_what_pauses_or_computing_lack_goes_from_the_other(of_step, of_pauses, checkpoint):
    seen = model(step(forward=70, checkpoint=checkpoint), loader(batch=0.001), cpu())
    left = seen.after([Change(step=Estimate(0, of_step, 1), pauses=Estimate(0, of_pauses, 1))])
    gone_s = seen.compute_s + seen.pauses_s - left.compute_s - left.pauses_s
    expected_s = min((of_step + of_pauses) * seen.step_s, 0.95 * (seen.compute_s + seen.pauses_s))
    assert gone_s == pytest.approx(expected_s, rel=0.02, abs=1e-9)

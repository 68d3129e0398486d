from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfdoctor.diagnosis.calibration import BEYOND, widen, widening
from perfdoctor.diagnosis.gains import within
from perfdoctor.facts.gather import Facts
from perfdoctor.facts.predict.contention import CpuContention
from perfdoctor.facts.predict.step_model import StepModel, of_loop
from perfdoctor.facts.predict.thread_speedup import of_threads
from perfdoctor.facts.predict.thread_team import ThreadTeam
from perfdoctor.facts.predict.worker_count import restarts
from perfdoctor.facts.steps.batch_size_cost import BatchSizeFacts
from perfdoctor.model.change import Change, Estimate, removes
from perfdoctor.model.checked import Checked
from perfdoctor.model.concluded import Advice, Bottleneck, Finding, Gain
from perfdoctor.model.measured import LoaderFacts, RunFacts, StepFacts, ThreadFacts
from perfdoctor.model.missing import Missing
from perfdoctor.model.trial import ORIGINAL, Setting, Variant
from perfdoctor.probe.trial.tweak import BITWISE
from perfdoctor.trials.settings.predicted_gain import flags, predict
from tests.diagnosis.test_report import starved
from tests.support import facts as charts
from tests.support.facts import cpu, loader, model, run, step, threads
from tests.support.host_facts import validation
from tests.support.judging import examine, report
from tests.support.load_facts import held_back
from tests.support.records import no_source
from tests.support.reports import STARVED as REPORT

pytestmark = pytest.mark.usefixtures("unraised")
OPEN = dict.fromkeys(Bottleneck, 50.0)  # no class bounds a gain
STARVED = step(data_wait=12, forward=3, backward=5, cpu=19)
LATE = step(data_wait=6, forward=4, backward=6, cpu=9)


def variant(words):
    """`--workers 4 --amp`, as the command line reads it."""
    settings = []
    for flag, word in flags(words.split()).items():
        value = int(word) if word is not None and word.isdigit() else word
        typed = (flag,) if word is None else (flag, word)
        settings.append(Setting(flag[2:], typed, {} if word is None else {"value": value}, BITWISE))
    return Variant(tuple(settings))


def patient(of_step, of_loader=None, of_cpu=None, of_run=None, **groups):
    """Facts of a run with the model that fits them."""
    of_cpu = of_cpu or cpu()
    own = of_loop(of_step, of_cpu) if of_loader is None else model(of_step, of_loader, of_cpu)
    known = {StepFacts: of_step, StepModel: own, **{type(group): group for group in groups.values()}}
    if of_loader is not None:
        known[LoaderFacts] = of_loader
    return Facts({RunFacts: of_run or run(), **known})


def finding(tweak, change, kind=Bottleneck.COMPUTE, likely=1.5):
    return Finding("a", 1, kind, "A", Advice(("because",), change, tweak=tweak), Gain(1.1, likely, 2.0))


def gain(words, facts, *findings, bounds=OPEN, classes=REPORT.diagnosis.classes):
    diagnosis = replace(REPORT.diagnosis, bounds=bounds, classes=classes)
    report = replace(REPORT, findings=findings, diagnosis=diagnosis)
    return predict(variant(words), facts, report)


def by_loader(facts, **setting):
    """What the step model says of these loader settings, in a range widened as for the class data."""
    return widen(facts.get(StepModel).gain(Change(**setting)), widening([Bottleneck.DATA], Checked.SCRIPTS))


def test_a_range_of_published_gains_is_the_findings_own_alone_and_widened_with_others():
    on_gpu = patient(step(forward=4, backward=6), of_run=run(device="NVIDIA H100"))
    change = replace(removes(-0.25, 0.2, 0.5), is_published=True)
    held = finding("--channels-last", change)
    assert gain("--channels-last", on_gpu, held) == Gain(pytest.approx(0.8), 1.25, 2.0)
    guessed = finding("--channels-last", replace(change, is_published=False))
    assert gain("--channels-last", on_gpu, guessed).low < 0.8
    both = gain("--channels-last --compile", on_gpu, held, finding("--compile", change))
    assert both.high > 2.0


def test_a_cost_of_the_runs_beginning_tells_nothing_of_settled_steps():
    compiled = patient(step(forward=4, backward=6))
    change = removes(0.1, 0.2, 0.5)
    once = finding("--no-compile", replace(change, is_once=True))
    assert gain("--no-compile", compiled, once) is None
    each = finding("--no-compile", change)
    assert gain("--no-compile", compiled, once, each) == gain("--no-compile", compiled, each)


# ---------------------------------------------------------------- workers, prefetch, epochs


def test_workers_bring_what_the_step_model_says_also_without_a_finding():
    starved = patient(STARVED, loader(batch=12))
    assert gain("--workers 2", starved) == by_loader(starved, workers=2)


def test_workers_that_make_it_slower_are_predicted_as_well():
    crowded = patient(step(data_wait=2, forward=8, backward=10, cpu=38), loader(batch=2), cpu(cores=2))
    assert gain("--workers 8", crowded).likely < 0.95


def test_fewer_workers_than_the_run_had_are_slower():
    late = patient(LATE, loader(workers=4, batch=60), cpu(cores=8))
    assert gain("--workers 1", late).likely < 0.5


def test_workers_that_validation_gets_too_count():
    of_loader = loader(workers=0, batch=20, cpu=2, other_wait_s=0.020)
    of_step = step(data_wait=40, forward=10, validation=5, cpu=15)
    slow, scored = (
        held_back(batch=20, wait=20, per_step=1.0, batch_cpu_s=0.002),
        validation(seconds=5, wait=20),
    )
    alone = patient(of_step, of_loader, cpu(cores=8))
    both = patient(of_step, of_loader, cpu(cores=8), slow=slow, scored=scored)
    assert gain("--workers 4", both).likely > 1.5 * gain("--workers 4", alone).likely
    has = patient(of_step, replace(of_loader, num_workers=4), cpu(cores=8), slow=slow, scored=scored)
    assert gain("--workers 4", has).likely > 1.2


def test_as_many_workers_as_there_are_change_nothing():
    assert gain("--workers 4", patient(LATE, loader(workers=4, batch=60))).likely == 1


def test_workers_are_not_predicted_for_an_iterable_dataset_that_may_not_share_itself_out():
    iterable = patient(STARVED, loader(batch=12, iterable=True))
    assert gain("--workers 4", iterable) is None
    assert gain("--workers 0", iterable).likely == 1


def test_a_script_without_a_loader_has_nothing_that_workers_could_change():
    assert gain("--workers 4", patient(STARVED)).likely == 1


def test_new_workers_that_start_again_in_every_epoch_bring_less_than_those_that_live_on():
    epochs = patient(STARVED, loader(batch=12, epochs=100))
    again, once = gain("--workers 2", epochs), gain("--workers 2 --persistent-workers", epochs)
    assert again.likely < 0.97 * once.likely
    # however long the training would have gone on after a run that was ended early
    own = replace(epochs.get(StepModel), goes_on=10.0)
    early = replace(epochs, groups={**epochs.groups, StepModel: own})
    assert gain("--workers 2", early).likely == pytest.approx(again.likely)


def test_without_workers_no_epoch_begins_with_their_start():
    restarted = loader(workers=2, batch=0.1, epochs=50, epoch_wait_s=0.008)
    of_step = step(data_wait=8.3, forward=4, backward=6, cpu=9)
    assert gain("--workers 0", patient(of_step, restarted)).likely == pytest.approx(18.3 / 10.1, rel=0.03)


def test_workers_that_live_on_save_the_stalls_between_epochs():
    stalled = loader(
        workers=4, batch=20, epochs=11, epoch_start_s=0.32, epoch_wait_s=0.00352, steady_wait_s=0.0
    )
    of_step = step(count=1000, data_wait=5, forward=5)
    assert restarts(of_step, stalled).likely == pytest.approx(0.3)
    assert 1.2 < gain("--persistent-workers", patient(of_step, stalled)).likely < 1.5


def test_workers_of_validation_that_live_on_save_theirs():
    stalled = loader(
        workers=4, batch=20, epochs=11, epoch_start_s=0.32, epoch_wait_s=0.00352, steady_wait_s=0.0
    )
    both = replace(stalled, other_wait_s=0.001, others_restart_s=0.001)
    of_step = step(count=1000, data_wait=5, forward=5)
    one = gain("--persistent-workers", patient(of_step, stalled)).likely
    assert gain("--persistent-workers", patient(of_step, both)).likely > 1.1 * one


def test_without_workers_of_training_those_of_validation_save_theirs():
    validating = loader(batch=2, other_wait_s=0.004, others_restart_s=0.003)
    of_step = step(count=1000, data_wait=6, forward=6)
    assert gain("--persistent-workers", patient(of_step, validating)).likely > 1.2


@pytest.mark.parametrize(
    "stalled",
    [
        pytest.param({"workers": 0}, id="no-workers"),
        pytest.param({"persistent_workers": True}, id="they-live-on"),
        pytest.param({"epochs": 1}, id="one-epoch"),
        pytest.param({"epoch_start_s": None}, id="not-measured"),
        pytest.param({"epoch_start_s": 0.01}, id="a-batch-takes-longer"),
    ],
)
def test_nothing_restarts(stalled):
    usual = {"workers": 4, "batch": 20, "epochs": 11, "epoch_start_s": 0.32}
    assert restarts(step(count=1000, forward=10), loader(**{**usual, **stalled})).likely == 0


UNEVEN = loader(workers=2, batch=14, p95=100, spread=(0.5,) * 15 + (8.5,))


def test_a_longer_queue_is_worth_what_its_simulation_says():
    uneven = patient(step(data_wait=4, forward=9), UNEVEN)
    assert gain("--prefetch 16", uneven) == by_loader(uneven, prefetch=16)
    assert gain("--prefetch 16", uneven).likely > 1.05


def test_a_queue_without_workers_is_none():
    assert gain("--prefetch 16", patient(STARVED, loader(batch=12))).likely == 1


def test_a_queue_counts_for_the_workers_that_come_with_it():
    uneven = patient(STARVED, loader(batch=12, p95=60, spread=(0.5,) * 15 + (8.5,)))
    assert gain("--workers 2 --prefetch 16", uneven).likely > gain("--workers 2", uneven).likely


@pytest.mark.parametrize("words", ["--workers 2", "--prefetch 4", "--persistent-workers"])
def test_a_loader_that_was_not_measured_predicts_nothing(words):
    unknown = Facts(
        {RunFacts: run(), StepFacts: STARVED, LoaderFacts: Missing("no batch of a DataLoader was recorded")}
    )
    assert gain(words, unknown) is None


# ---------------------------------------------------------------- threads


def computing(intra_op, cores=8, module=2.0, of_loader=None, of_run=None, used=1.0, wait=5.0):
    """95 ms of computing on so many threads, `used` of which are busy; the rest of the step waits."""
    in_main = of_loader is not None and not of_loader.num_workers
    batch_ms = of_loader.batch_cpu_s * 1e3 if in_main else 0.0
    of_step = step(forward=40, backward=55, data_wait=wait, cpu=95 * used + batch_ms)
    return patient(of_step, of_loader, cpu(cores=cores), of_run, threads=threads(intra_op, module=module))


def test_threads_speed_up_what_they_share_in_computing():
    found = gain("--threads 8", computing(1))
    assert 1.0 < found.low < found.likely < found.high < 8
    assert found.likely == pytest.approx(100 / (5 + 95 * (0.4 + 0.6 / 8)))


@pytest.mark.parametrize("count", [1, 4])
def test_as_many_threads_as_there_are_change_nothing_even_beside_many_workers(count):
    crowded = loader(workers=8, batch=400, epoch_wait_s=0.0)
    of_cpu = cpu(cores=2, worker_delay=3.0, main_delay=0.5)
    of_step = step(data_wait=50, forward=40, backward=10, cpu=40)
    beside = patient(of_step, crowded, of_cpu, threads=threads(count))
    assert gain(f"--threads {count}", beside).likely == pytest.approx(1.0)


def test_threads_beyond_the_cores_bring_nothing():
    assert gain("--threads 5", computing(4, cores=4, used=3.5)).likely == pytest.approx(1.0)


def test_many_threads_on_few_cores_are_slower():
    assert gain("--threads 16", computing(4, cores=4, used=3.5)).likely < 0.9


def test_fewer_threads_than_cores_are_slower():
    found = gain("--threads 1", computing(4, used=3.5))
    assert found.low < found.likely < 0.6


def test_threads_do_little_for_small_operations():
    small, large = (gain("--threads 8", computing(1, module=module)) for module in (0.1, 2.0))
    assert small.low < 1.0
    assert small.likely < large.likely


@pytest.mark.parametrize("of_run", [run(device="cuda"), run(ranks=4)], ids=["device", "ranks"])
def test_threads_are_not_predicted_where_they_are_not_what_computes(of_run):
    assert gain("--threads 8", computing(1, of_run=of_run)) is None


def test_threads_are_not_predicted_where_their_number_is_not_known():
    unknown = patient(STARVED)
    assert ThreadFacts not in unknown.groups
    assert gain("--threads 2", unknown) is None


def test_the_tip_and_the_prediction_say_the_same_of_threads():
    from perfdoctor.tips.wrong_thread_count import wrong_thread_count

    alone = computing(1)
    of_step, of_threads = alone.get(StepFacts), threads(1, "OMP_NUM_THREADS=1")
    advice = wrong_thread_count(run(), of_step, of_threads, cpu(cores=8, busy=1.0), ThreadTeam(1, 8.0, 0.0))
    found = gain(advice.tweak, alone)
    assert found.likely == pytest.approx(charts.gain(advice, alone.get(StepModel)).likely)


def test_the_tip_and_the_prediction_say_the_same_of_threads_beside_other_programs():
    from perfdoctor.tips.wrong_thread_count import wrong_thread_count

    crowd = cpu(cores=2, busy=0.4, main_cores=0.4, other_cores=1.6, main_delay=1.6)
    of_step, two = step(forward=40, backward=55, other=5, cpu=40), threads(2)
    team = ThreadTeam(2, 2.0, 1.6, ran=0.4, lacked=1.6, first_ran=0.2, first_lacked=0.8)
    crowded = patient(of_step, None, crowd, threads=two, team=team)
    advice = wrong_thread_count(run(), of_step, two, crowd, team)
    found = gain("--threads 1", crowded)
    assert found.likely > 3
    assert found.likely == pytest.approx(charts.gain(advice, crowded.get(StepModel)).likely, rel=0.02)
    assert gain("--threads 2", crowded).likely == pytest.approx(1.0)


def test_one_thread_beside_one_worker_beats_two_threads_on_two_cores():
    # two threads that keep both cores busy, and gain little by it: a worker takes a core from them
    two = computing(2, cores=2, module=0.2, of_loader=loader(batch=95), used=1.9, wait=95)
    alone, both = gain("--workers 1", two), gain("--workers 1 --threads 1", two)
    assert both.likely == pytest.approx(
        190 / (95 / (0.7 + 0.3 / 2) + 1.0), rel=0.01
    )  # nobody waits for a core
    assert both.likely > 1.1 * alone.likely
    assert both.likely > 1.1 * gain("--threads 1", two).likely


def test_one_thread_loses_no_more_than_its_share_where_teams_lose_much_more():
    usual = computing(2, cores=2, of_loader=loader(batch=95), used=1.9, wait=95)
    own = usual.get(StepModel)
    teams = replace(own, contention=CpuContention((9.0,) * 3, own.contention.worker))
    harsh = replace(usual, groups={**usual.groups, StepModel: teams})
    assert gain("--workers 3", harsh).likely < 0.8 * gain("--workers 3", usual).likely
    one, other = (gain("--workers 3 --threads 1", facts) for facts in (harsh, usual))
    assert one.likely == pytest.approx(other.likely, rel=0.02)


def test_threads_free_time_of_computing_and_of_workers():
    late = computing(4, cores=4, of_loader=loader(workers=3, batch=500), used=3.9, wait=105)
    bounds = {**dict.fromkeys(Bottleneck, 1.0), Bottleneck.DATA: 1.05, Bottleneck.COMPUTE: 1.02}
    assert gain("--threads 1", late).high > 1.1
    both = 1 / (1 / 1.05 + 1 / 1.02 - 1)
    assert gain("--threads 1", late, bounds=bounds).high == pytest.approx(both**BEYOND)


def test_threads_and_workers_share_the_cores():
    quiet, crowded = (computing(1, cores=cores, of_loader=loader(batch=300), wait=300) for cores in (16, 4))
    assert (
        gain("--workers 4 --threads 4", crowded).likely < 0.9 * gain("--workers 4 --threads 4", quiet).likely
    )


def test_one_thread_frees_the_cores_for_workers_that_were_late():
    late = computing(4, cores=4, of_loader=loader(workers=3, batch=500), used=3.9, wait=105)
    freed = computing(4, cores=4, of_loader=loader(workers=3, batch=500), used=1.2, wait=105)
    assert gain("--threads 1", late).likely > gain("--threads 1", freed).likely


@given(
    now=st.integers(1, 512),
    then=st.integers(1, 512),
    cores=st.floats(0.1, 256),
    each_s=st.none() | st.floats(1e-6, 1.0),
)
def test_what_threads_bring_is_ordered_and_turns_back(now, then, cores, each_s):
    low, likely, high = of_threads(now, then, cores, each_s)
    assert 0 < low <= likely <= high
    assert of_threads(now, now, cores, each_s) == (1, 1, 1)


def test_the_larger_the_operations_the_more_threads_bring():
    small, usual, large = (of_threads(1, 4, 4, each_s) for each_s in (1e-4, 1e-3, 1e-2))
    assert all(small[case] < usual[case] < large[case] for case in range(3))


@given(
    workers=st.integers(0, 8),
    asked=st.integers(0, 32),
    count=st.integers(1, 64),
    now=st.integers(1, 64),
    batch=st.floats(0.01, 1e4),
    compute=st.floats(0.01, 1e4),
    step_cpu=st.floats(0.001, 1e5),
    cores=st.floats(0.1, 128),
)
def test_predictions_are_finite_and_ordered(workers, asked, count, now, batch, compute, step_cpu, cores):
    of_step = step(data_wait=batch, forward=compute, cpu=step_cpu)
    of_step = replace(of_step, wall_s=100.0)
    any_patient = patient(of_step, loader(workers=workers, batch=batch), cpu(cores=cores), t=threads(now))
    found = gain(f"--workers {asked} --threads {count}", any_patient)
    assert 0 < found.low <= found.likely <= found.high <= 100


# ---------------------------------------------------------------- batches


def sized(times, device="cpu", fixed=(0.4, 0.6, 0.8)):
    of = patient(
        step(forward=10, cpu=10),
        loader(batch=0.01, batch_size=32),
        of_run=run(device=device),
        sizes=BatchSizeFacts(32.0, fixed, "because"),
    )
    return gain(f"--batch-size {round(32 * times)}", of)


def test_a_larger_batch_shares_the_fixed_part_of_a_step():
    assert sized(4).likely == pytest.approx(1 / (1 - 0.6 * 0.75), rel=0.01)


def test_a_smaller_batch_repeats_it():
    found = sized(0.5)
    assert found.low < found.likely < found.high < 1
    assert found.likely == pytest.approx(1 / 1.6, rel=0.01)


def test_a_batch_is_predicted_on_a_device_where_a_window_tells_what_is_fixed():
    assert sized(4, device="A100").likely == pytest.approx(1 / (1 - 0.6 * 0.75), rel=0.01)
    unknown = patient(step(forward=10, cpu=10), loader(batch_size=32), of_run=run(device="A100"))
    assert gain("--batch-size 128", unknown) is None


# ---------------------------------------------------------------- findings


AMP = finding("--amp", removes(0.2, 0.4, 0.6))


def test_a_finding_tells_of_the_tweak_that_it_names():
    assert gain("--amp", patient(STARVED), AMP).likely == pytest.approx(1 / 0.6)


def test_a_finding_tells_of_its_tweak_with_an_extra_word():
    extra = Setting("amp", ("--amp", "--amp-dtype", "fp16"), {"amp_dtype": "fp16"}, BITWISE)
    report = replace(REPORT, findings=(AMP,), diagnosis=replace(REPORT.diagnosis, bounds=OPEN))
    assert predict(Variant((extra,)), patient(STARVED), report).likely == pytest.approx(1 / 0.6)


def test_another_value_than_the_findings_is_not_predicted():
    accumulate = finding("--accumulate 4", removes(0.1, 0.2, 0.3))
    assert gain("--accumulate 4", patient(STARVED), accumulate) is not None
    assert gain("--accumulate 8", patient(STARVED), accumulate) is None


def test_a_finding_that_names_more_than_is_tried_is_not_used():
    both = finding("--channels-last --amp", removes(0.1, 0.2, 0.3))
    assert gain("--amp", patient(STARVED), both) is None


def test_a_tweak_that_nothing_is_known_about_leaves_the_variant_without_a_prediction():
    assert gain("--tf32", patient(STARVED)) is None
    assert gain("--amp --tf32", patient(STARVED), AMP) is None


def test_a_finding_without_time_to_save_predicts_nothing():
    assert gain("--amp", patient(STARVED), finding("--amp", None)) is None


def test_of_two_findings_with_one_tweak_the_larger_is_meant():
    small = finding("--amp", removes(0.05, 0.1, 0.2), likely=1.1)
    assert gain("--amp", patient(STARVED), AMP, small) == gain("--amp", patient(STARVED), AMP)


def test_gains_do_not_add():
    other = finding("--cudnn-benchmark", removes(0.3, 0.3, 0.3), likely=1.4)
    computing = patient(step(forward=20))
    first, second = (gain(words, computing, AMP, other) for words in ("--amp", "--cudnn-benchmark"))
    both = gain("--amp --cudnn-benchmark", computing, AMP, other, classes={Bottleneck.COMPUTE: 1.0})
    assert both.likely == pytest.approx(first.likely * second.likely)  # each of what the other leaves
    assert both.low == max(first.low, second.low)  # or both of the same seconds
    assert both.high == pytest.approx(
        widen(Gain(high=1 / 0.1), widening([Bottleneck.COMPUTE], Checked.SCRIPTS)).high
    )  # or of others


def test_what_one_class_gives_is_not_taken_twice():
    other = finding("--cudnn-benchmark", removes(0.3, 0.3, 0.3), likely=1.4)
    both = gain("--amp --cudnn-benchmark", patient(STARVED), AMP, other, classes={Bottleneck.COMPUTE: 0.4})
    alone = gain("--amp", patient(STARVED), AMP)
    assert (both.likely, both.high) == (alone.likely, alone.high)


def test_what_a_finding_saves_in_computing_is_hidden_behind_late_batches():
    late = patient(step(data_wait=11.5, forward=8.5, cpu=8.5), loader(workers=2, batch=40))
    assert gain("--amp", late, AMP).likely == pytest.approx(1.0, abs=0.03)
    assert gain("--amp --workers 8", late, AMP).likely > gain("--workers 8", late).likely * 1.2


def test_no_gain_is_above_the_ceiling_of_its_class():
    bound = {**OPEN, Bottleneck.DATA: 1.5}
    starved = patient(STARVED, loader(batch=12))
    assert gain("--workers 2", starved).likely > 1.6
    assert gain("--workers 2", starved, bounds=bound).likely == 1.5
    assert gain("--workers 2", starved, bounds=bound).high <= 1.5**BEYOND


def test_ceilings_of_several_classes_are_those_of_their_time_together():
    bounds = {**OPEN, Bottleneck.DATA: 2.0, Bottleneck.COMPUTE: 1.25}  # 50 % and 20 %
    kinds = (Bottleneck.DATA, Bottleneck.COMPUTE)
    assert within(Gain(2, 8, 9), kinds, bounds).likely == pytest.approx(1 / 0.3)
    assert within(Gain(0.5, 0.8, 0.9), kinds, bounds) == Gain(0.5, 0.8, 0.9)


def test_nothing_changed_is_no_gain_and_no_loss():
    assert predict(ORIGINAL, patient(STARVED), REPORT) == Gain()


@pytest.mark.parametrize("count", [4, 0])
def test_a_run_too_short_to_tell_anything_predicts_nothing(count):
    assert gain("--workers 2", patient(step(count=count, data_wait=12, forward=8), loader())) is None


def test_a_run_without_steps_predicts_nothing():
    assert (
        gain("--workers 2", Facts({RunFacts: run(), StepFacts: Missing("no training step was seen")})) is None
    )


def test_a_change_of_batches_is_no_change_of_the_step_without_a_model():
    unknown = Facts(
        {RunFacts: run(), StepFacts: STARVED, StepModel: Missing("the cost of a batch was not measured")}
    )
    cached = finding("--cache-dataset", Change(batch=Estimate(0.5, 0.5, 0.5)), Bottleneck.DATA)
    assert gain("--cache-dataset", unknown, cached).likely == 1
    assert gain("--amp", unknown, AMP).likely == pytest.approx(1 / 0.6)


def test_what_a_report_advises_is_predicted_as_it_says():
    records = starved()
    told, known = examine(records, no_source)
    assert told == report(records, no_source)
    first = told.findings[0]
    assert predict(variant(first.advice.tweak), known, told).likely == pytest.approx(first.gain.likely)


def test_flags_and_their_values():
    assert flags(["--workers", "4", "--amp"]) == {"--workers": "4", "--amp": None}

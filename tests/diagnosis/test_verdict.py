from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfdoctor.diagnosis.verdict import TimeAttribution, attribute_time, conclude, decide
from perfdoctor.facts.device.device import DeviceFacts
from perfdoctor.facts.device.profiler_windows import NO_WINDOW
from perfdoctor.facts.gather import Facts
from perfdoctor.facts.steps.tenths import PhaseTenths
from perfdoctor.model.batch import Stage
from perfdoctor.model.change import removes
from perfdoctor.model.concluded import Advice, Bottleneck, Confidence, Finding, Gain, Verdict
from perfdoctor.model.measured import GpuFacts, Marker, Phase, RunFacts, StackFacts, StepFacts
from perfdoctor.model.missing import Missing
from tests.support import job_facts, load_facts, script_facts
from tests.support.facts import cpu, device, line, loader, model, run, stacks, step


def facts(of_step, *groups, device="cpu"):
    return Facts({type(group): group for group in (run(device=device), of_step, *groups)})


CHANGE = removes(0.0, 0.1, 0.2)


def finding(kind, likely, low=1.0, change=CHANGE):
    return Finding(
        "some-tip", 1, kind, "Do something", Advice(("because",), change), Gain(low, likely, likely)
    )


def conclusion(of_step, *groups, findings=(), device="cpu"):
    told = facts(of_step, *groups, device=device)
    return conclude(told, attribute_time(told), findings)


def test_a_starved_run_waits_for_data():
    found = conclusion(step(data_wait=60, forward=15, backward=25), findings=[finding(Bottleneck.DATA, 2.0)])
    assert (found.verdict, found.share) == (Verdict.DATA, pytest.approx(0.6))
    assert found.bound == pytest.approx(2.5)
    assert found.confidence is Confidence.HIGH


def test_waiting_for_batches_that_are_fetched_is_waiting_for_the_network():
    remote = load_facts.batch(load_facts.cost(Stage.FETCHING, 0.9), load_facts.cost(Stage.TRANSFORMING, 0.1))
    of_step, of_loader, of_cpu = step(data_wait=90, forward=10), loader(workers=2, batch=190, cpu=7), cpu()
    of_model = model(of_step, of_loader, of_cpu)
    found = conclusion(of_step, remote, of_model, findings=[finding(Bottleneck.NETWORK, 3.0)])
    assert found.verdict is Verdict.NETWORK
    assert found.classes[Bottleneck.NETWORK] == pytest.approx(0.81)
    # the workers need 0.95 of the step for their batches: a tenth of that is left without the network
    assert found.bounds[Bottleneck.NETWORK] == pytest.approx(1 / 0.19)
    assert found.bounds[Bottleneck.DATA] == pytest.approx(1 / 0.91)


def test_a_wait_that_a_finding_can_take_out_outranks_compute_that_none_can():
    found = conclusion(step(data_wait=35, forward=30, backward=35), findings=[finding(Bottleneck.DATA, 1.4)])
    assert found.verdict is Verdict.DATA


def test_compute_without_a_finding_is_healthy():
    found = conclusion(step(data_wait=4, forward=40, backward=50, other=6))
    assert (found.verdict, found.bound) == (Verdict.HEALTHY, pytest.approx(10))
    assert "no known change" in found.because[1]


def test_compute_with_a_finding_is_the_bottleneck():
    found = conclusion(step(forward=45, backward=55), findings=[finding(Bottleneck.COMPUTE, 1.5)])
    assert found.verdict is Verdict.COMPUTE


def test_small_findings_leave_a_run_healthy():
    found = conclusion(step(forward=45, backward=50, data_wait=5), findings=[finding(Bottleneck.DATA, 1.04)])
    assert found.verdict is Verdict.HEALTHY


def test_a_large_share_of_host_time_counts_without_a_finding():
    found = conclusion(step(forward=30, backward=40, other=30), stacks(line(0.3)))
    assert found.verdict is Verdict.HOST


LEVEL = step(data_wait=50, forward=20, backward=30)


@pytest.mark.parametrize("data_wait", [48, 50, 52])
def test_of_two_classes_that_are_level_the_avoidable_one_is_the_bottleneck(data_wait):
    of_step = step(data_wait=data_wait, forward=20, backward=80 - data_wait)
    assert conclusion(of_step, findings=[finding(Bottleneck.DATA, 1.5)]).verdict is Verdict.DATA


def test_two_level_classes_that_are_both_avoidable_are_balanced():
    found = conclusion(LEVEL, findings=[finding(Bottleneck.DATA, 1.5), finding(Bottleneck.COMPUTE, 1.3)])
    assert found.verdict is Verdict.BALANCED


def test_of_two_level_classes_of_which_much_could_go_the_one_that_findings_shorten_far_more_is_the_bottleneck():
    of_device = device(exposed_copy=0.03, sync=0.4, host_late=0.55)
    of_step = step(host_to_device=47, forward=33, backward=20)
    little = finding(Bottleneck.HOST, 1.1)
    found = conclusion(
        of_step, of_device, findings=[finding(Bottleneck.TRANSFER, 1.6), little], device="cuda"
    )
    assert found.verdict is Verdict.TRANSFER
    assert "host takes more of the time (51%), but less of it can be saved" in found.because
    alike = [finding(Bottleneck.TRANSFER, 1.3), finding(Bottleneck.HOST, 1.2)]
    assert conclusion(of_step, of_device, findings=alike, device="cuda").verdict is Verdict.BALANCED
    assert conclusion(of_step, of_device, findings=[], device="cuda").verdict is Verdict.BALANCED


@pytest.mark.parametrize(
    ("likely", "verdict"),
    [
        pytest.param(1.36, Verdict.DATA, id="takes-out-copies-as-well"),
        pytest.param(1.25, Verdict.COMPUTE, id="takes-out-less-than-compiling"),
    ],
)
def test_what_a_finding_takes_out_of_a_second_class_goes_with_the_first(likely, verdict):
    """Near a U-Net on an H200 whose host draws noise and copies it: compiling takes out 22 % as well."""
    classes = dict.fromkeys(Bottleneck, 0.0)
    classes |= {Bottleneck.COMPUTE: 0.735, Bottleneck.DATA: 0.215, Bottleneck.TRANSFER: 0.05}
    bounds = {kind: 1 / (1 - share) for kind, share in classes.items()}
    found = [finding(Bottleneck.DATA, likely), finding(Bottleneck.COMPUTE, 1.285)]
    assert decide(TimeAttribution(classes, bounds), found)[0] is verdict


def test_level_classes_of_which_none_is_avoidable_are_balanced():
    of_class = dict.fromkeys(Bottleneck, 0.0) | {Bottleneck.NETWORK: 0.51, Bottleneck.COMPUTE: 0.49}
    bounds = dict.fromkeys(Bottleneck, 1.0)  # without either, the other still takes as long
    assert decide(TimeAttribution(of_class, bounds), ()) == (Verdict.BALANCED, Bottleneck.NETWORK)


def test_other_time_goes_where_its_lines_belong():
    lines = stacks(
        line(0.2, 1, "data"), line(0.1, 4, "drawn"), line(0.2, 2, "compute"), line(0.1, 3, "logging")
    )
    found = conclusion(step(other=60, forward=40), lines)
    assert {kind: round(share, 3) for kind, share in found.classes.items()} == {
        Bottleneck.DATA: 0.3,
        Bottleneck.TRANSFER: 0.0,
        Bottleneck.COMPUTE: 0.6,
        Bottleneck.NETWORK: 0.0,
        Bottleneck.HOST: 0.1,
    }


def test_a_busy_device_is_compute_though_the_host_waits_for_it():
    gpu = GpuFacts(("A100",), 0.95, None, None)
    found = conclusion(step(data_wait=5, forward=20, backward=15, other=60), gpu, device="cuda")
    assert found.verdict is Verdict.HEALTHY
    assert found.classes[Bottleneck.COMPUTE] == pytest.approx(0.95)
    assert found.confidence is Confidence.MEDIUM


def test_nobody_calls_a_device_healthy_that_no_window_looked_into():
    def blind(of_step, busy, findings=(), missing=NO_WINDOW):
        told = facts(of_step, GpuFacts(("A100",), busy, None, None), device="cuda")
        told = Facts({**told.groups, DeviceFacts: missing})
        return conclude(told, attribute_time(told), findings)

    found = blind(step(forward=40, backward=60), 0.95)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert f"what the device does with its time is not known: {NO_WINDOW.reason}" in found.because
    never = blind(step(forward=40, backward=60), 0.95, missing=Missing("the profiler cannot record it"))
    assert (never.verdict, never.confidence) == (Verdict.HEALTHY, Confidence.LOW)
    assert (
        never.because[-1] == "what the device does with its time is not known: the profiler cannot record it"
    )
    starved = step(data_wait=60, forward=15, backward=25)
    assert blind(starved, 0.3, [finding(Bottleneck.DATA, 2.0)]).verdict is Verdict.DATA


def test_an_idle_device_beside_a_busy_host_is_the_hosts():
    gpu = GpuFacts(("A100",), 0.3, None, None)
    found = conclusion(step(data_wait=5, forward=50, backward=45), gpu, device="cuda")
    assert found.verdict is Verdict.HOST


def test_the_way_of_tensors_to_the_host_and_back_is_transfer():
    of_device = replace(device(exposed_copy=0.15, sync=0.2, host_late=0.6), away=0.4)
    found = conclusion(
        step(host_to_device=10, forward=60, backward=20, optimizer=10),
        of_device,
        findings=[finding(Bottleneck.TRANSFER, 2.0)],
        device="cuda",
    )
    assert found.verdict is Verdict.TRANSFER
    shares = found.classes
    assert (shares[Bottleneck.TRANSFER], shares[Bottleneck.HOST]) == pytest.approx((0.55, 0.4))


@pytest.mark.parametrize(
    ("others", "delay", "doubted"), [(1.0, 0.6, True), (0.2, 0.6, False), (1.0, 0.1, False)]
)
def test_threads_whose_cores_other_programs_had_are_a_reason_for_doubt(others, delay, doubted):
    crowded = cpu(2, other_cores=others, main_delay=delay)
    found = conclusion(step(data_wait=60, forward=40), crowded, findings=[finding(Bottleneck.DATA, 2.0)])
    assert found.confidence is (Confidence.MEDIUM if doubted else Confidence.HIGH)
    assert any("its threads waited 0.60 s" in sentence for sentence in found.because) is doubted


@pytest.mark.parametrize(("delay", "confidence"), [(0.9, Confidence.MEDIUM), (1.1, Confidence.LOW)])
def test_threads_that_waited_longer_for_a_core_than_they_ran_leave_little_to_say(delay, confidence):
    starved = cpu(2, main_cores=1.0, other_cores=1.5, main_delay=delay)
    assert conclusion(step(forward=60, backward=40), starved).confidence is confidence


def test_seconds_that_several_threads_lacked_a_core_are_no_share_of_the_time():
    found = conclusion(step(forward=100), cpu(2, other_cores=1.5, main_delay=1.25))
    assert any("its threads waited 1.25 s per second" in why for why in found.because)
    assert not any("125%" in why for why in found.because)


def test_a_device_that_nobody_sampled_is_a_reason_for_doubt():
    found = conclusion(step(data_wait=60, forward=40), device="cuda")
    assert found.confidence is Confidence.LOW
    assert any("not sampled" in sentence for sentence in found.because)


def test_that_nothing_was_found_is_never_certain():
    assert conclusion(step(forward=60, backward=40)).confidence is Confidence.MEDIUM


@pytest.mark.parametrize(("low", "confidence"), [(1.0, Confidence.HIGH), (0.99, Confidence.LOW)])
def test_avoidable_compute_is_as_certain_as_its_findings(low, confidence):
    found = conclusion(step(forward=60, backward=40), findings=[finding(Bottleneck.COMPUTE, 1.6, low)])
    assert (found.verdict, found.confidence) == (Verdict.COMPUTE, confidence)
    assert ("the findings may bring nothing: their ranges reach below 1" in found.because) is (low < 1)


@pytest.mark.parametrize(("low", "confidence"), [(1.0, Confidence.MEDIUM), (0.99, Confidence.LOW)])
def test_what_takes_less_of_the_time_is_as_certain_as_its_findings(low, confidence):
    found = conclusion(step(data_wait=15, forward=85), findings=[finding(Bottleneck.DATA, 1.1, low)])
    assert (found.verdict, found.confidence) == (Verdict.DATA, confidence)


def test_a_risk_without_a_gain_makes_no_other_finding_more_certain():
    found = [finding(Bottleneck.COMPUTE, 1.6, 0.99), finding(Bottleneck.COMPUTE, 1.0, change=None)]
    assert conclusion(step(forward=60, backward=40), findings=found).confidence is Confidence.LOW


def test_compute_that_one_rank_takes_longer_for_may_be_the_network_for_the_others():
    surely = [finding(Bottleneck.COMPUTE, 1.6, low=1.5)]
    found = conclusion(step(forward=60, backward=40), job_facts.job(), findings=surely)
    assert (found.verdict, found.confidence) == (Verdict.COMPUTE, Confidence.MEDIUM)


def test_a_class_that_does_not_take_most_of_the_time_is_less_certain():
    found = conclusion(step(data_wait=35, forward=65), findings=[finding(Bottleneck.DATA, 1.4)])
    assert (found.verdict, found.confidence) == (Verdict.DATA, Confidence.MEDIUM)
    assert "compute takes more of the time (65%), but no fix for it is known" in found.because


def test_without_compute_a_step_lasts_as_long_as_its_batches():
    of_step = step(data_wait=50, forward=50, cpu=50)
    of_model = model(of_step, loader(workers=1, batch=95), cpu())
    found = conclusion(of_step, of_model, findings=[finding(Bottleneck.DATA, 1.5)])
    assert found.bounds[Bottleneck.COMPUTE] < 1.1


@pytest.mark.parametrize("count", [1, 4])
def test_too_few_steps_are_no_verdict(count):
    found = conclusion(step(count=count, data_wait=6000, forward=4000))
    assert (found.verdict, found.confidence) == (Verdict.INCONCLUSIVE, Confidence.LOW)
    assert found.because[0].startswith(f"only {count} step")


def test_too_short_a_run_is_no_verdict():
    found = conclusion(step(count=90, data_wait=6, forward=4))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.because[0] == "only 90 steps seen in 900 ms"


def test_few_steps_are_a_guess():
    found = conclusion(step(count=19, data_wait=600, forward=400), findings=[finding(Bottleneck.DATA, 2.0)])
    assert (found.verdict, found.confidence) == (Verdict.DATA, Confidence.LOW)


def tenths(*shares, kind=Phase.DATA_WAIT):
    """What a phase takes of each tenth of the run; the forward pass has the rest."""
    return PhaseTenths(tuple({kind: share, Phase.FORWARD: 1 - share} for share in shares))


WANDERING = replace(step(data_wait=4, forward=96), drift=0.8001)
IN_EACH = tenths(*[0.04] * 10)


def test_a_class_that_leads_in_each_tenth_is_the_verdict_however_far_step_time_wanders():
    found = conclusion(WANDERING, IN_EACH, findings=[finding(Bottleneck.COMPUTE, 1.5, low=1.3)])
    assert (found.verdict, found.confidence) == (Verdict.COMPUTE, Confidence.MEDIUM)
    assert any(
        "varies by 80%" in because and "has the most to save in 10 of 10 tenths" in because
        for because in found.because
    )


def test_a_class_that_leads_in_the_mean_only_is_no_verdict_where_step_time_wanders():
    of_step = replace(step(data_wait=60, forward=40), drift=0.9)
    turned = tenths(*[0.9] * 6, *[0.1] * 4)
    both = [finding(Bottleneck.DATA, 2.0), finding(Bottleneck.COMPUTE, 1.5)]
    found = conclusion(of_step, turned, findings=both)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "data has the most to save in 6 of 10 tenths" in found.because[0]


@pytest.mark.parametrize(("led", "verdict"), [(9, Verdict.DATA), (8, Verdict.INCONCLUSIVE)])
def test_nearly_every_tenth_is_enough(led, verdict):
    of_step = replace(step(data_wait=60, forward=40), drift=0.9)
    both = [finding(Bottleneck.DATA, 2.0), finding(Bottleneck.COMPUTE, 1.5)]
    assert conclusion(of_step, tenths(*[0.7] * led, *[0.1] * (10 - led)), findings=both).verdict is verdict


def test_what_is_avoidable_leads_though_compute_is_larger_in_each_tenth():
    of_step = replace(step(data_wait=40, forward=60), drift=0.9)
    found = conclusion(of_step, tenths(*[0.3, 0.5] * 5), findings=[finding(Bottleneck.DATA, 1.6)])
    assert found.verdict is Verdict.DATA


def test_a_steady_step_whose_cause_changes_is_doubted():
    both = [finding(Bottleneck.DATA, 2.0), finding(Bottleneck.COMPUTE, 1.5)]
    found = conclusion(step(data_wait=60, forward=40), tenths(*[0.9] * 6, *[0.1] * 4), findings=both)
    assert (found.verdict, found.confidence) == (Verdict.DATA, Confidence.MEDIUM)
    assert any("in 6 of 10 tenths" in because for because in found.because)


def test_a_healthy_run_is_one_that_computes_throughout():
    assert conclusion(WANDERING, IN_EACH).verdict is Verdict.HEALTHY
    assert conclusion(WANDERING, tenths(*[0.9] * 2, *[0.01] * 8)).verdict is Verdict.INCONCLUSIVE


def test_step_time_that_wanders_in_a_run_too_short_to_cut_is_no_verdict():
    wandering = replace(step(data_wait=60, forward=40), drift=0.9)
    found = conclusion(wandering, findings=[finding(Bottleneck.DATA, 2.0)])
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "varies by 90%" in found.because[0]


def test_a_weak_marker_is_named():
    weak = replace(step(data_wait=60, forward=40), marker=Marker.BATCH)
    found = conclusion(weak, findings=[finding(Bottleneck.DATA, 2.0)])
    assert found.confidence is Confidence.MEDIUM
    assert any("counted by batch" in sentence for sentence in found.because)


@pytest.mark.parametrize(
    ("phases", "why"),
    [
        pytest.param({"forward": 40}, "no optimizer step or backward was seen", id="none"),
        pytest.param({"forward": 20, "backward": 20}, "no optimizer step had finished", id="inside-a-step"),
    ],
)
def test_updates_that_had_begun_are_not_said_to_be_missing(phases, why):
    weak = replace(step(data_wait=60, **phases), marker=Marker.CALL)
    found = conclusion(weak, findings=[finding(Bottleneck.DATA, 2.0)])
    assert f"{why}: steps are counted by module calls" in found.because


def test_no_steps_are_inconclusive_and_say_why():
    nothing = Facts({RunFacts: run(), StepFacts: Missing("torch was not imported")})
    found = conclude(nothing, attribute_time(nothing), ())
    assert (found.verdict, found.because) == (Verdict.INCONCLUSIVE, ("torch was not imported",))


AMOUNT = st.floats(0, 1e5)


@given(
    phases=st.fixed_dictionaries({phase.value: AMOUNT for phase in Phase}),
    kinds=st.lists(
        st.tuples(st.sampled_from(["data", "compute", "logging", None]), st.floats(0, 1)), max_size=5
    ),
    utilisation=st.none() | st.floats(-0.5, 1.5),
    likely=st.floats(1, 50),
    kind=st.sampled_from(list(Bottleneck)),
)
def test_shares_are_shares_and_ceilings_bounded_whatever_was_measured(
    phases, kinds, utilisation, likely, kind
):
    of_step = step(**{**phases, "other": phases["other"] + 0.001})
    groups: list[object] = [stacks(*(line(share, index, name) for index, (name, share) in enumerate(kinds)))]
    groups.append(GpuFacts(("device",), utilisation, None, None))
    found = conclusion(of_step, *groups, findings=[finding(kind, likely)])
    assert sum(found.classes.values()) == pytest.approx(1.0)
    assert all(0 <= share <= 1 for share in found.classes.values())
    assert 0 <= found.share <= 1
    assert all(1 <= ceiling <= 100 for ceiling in found.bounds.values())


def test_stack_facts_without_lines_leave_other_to_the_host():
    found = conclusion(step(other=50, forward=50), StackFacts(10, "py-spy", {}))
    assert found.classes[Bottleneck.HOST] == pytest.approx(0.5)


def test_a_log_that_the_timers_charge_to_the_forward_pass_is_charged_to_the_host():
    of_step = step(other=10, forward=60, backward=30)
    found = attribute_time(facts(of_step, stacks(line(0.3, 1, "logging"), line(0.1, 2, "compute"))))
    assert found is not None
    assert found.classes[Bottleneck.HOST] == pytest.approx(0.3)
    assert found.classes[Bottleneck.COMPUTE] == pytest.approx(0.7)


def test_training_slowed_by_its_own_workers_is_charged_to_data():
    slowed = replace(step(data_wait=1, forward=9), contention_s=0.003)
    found = attribute_time(facts(slowed))
    assert found is not None
    assert found.classes[Bottleneck.DATA] == pytest.approx(0.4)


def test_exchange_inside_backward_is_charged_to_the_network():
    shared = script_facts.parallel(synced=1.0, exposed_s=0.004, device="cpu")
    found = attribute_time(facts(step(forward=2, backward=8), shared))
    assert found is not None
    assert found.classes[Bottleneck.NETWORK] == pytest.approx(0.4)

from __future__ import annotations

import pytest

from perfdoctor.facts.host.stack_costs import StackCost, StackCosts
from perfdoctor.facts.script.recomputation import recomputation_facts
from perfdoctor.facts.steps.boundaries import find
from perfdoctor.facts.steps.span import MeasuredSpan
from perfdoctor.facts.user_source.frames import Frame, Owner
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.measured import GpuFacts, Phase
from perfdoctor.model.missing import Missing
from perfdoctor.wire.events.recomputation import RecomputationEvent
from tests.support.facts import device, run, step
from tests.support.load_facts import GB, memory
from tests.support.rank_traces import launches
from tests.support.records import rows, source_of, update

SPAN = MeasuredSpan.of(find(rows([update(10)] * 100)))
STEP = step(forward=3, backward=6, optimizer=1)
GPU = GpuFacts(("Tesla V100",), 0.9, 4 * GB, 16 * GB)
BLOCKS = """\
def forward(x):
    for block in blocks:
        x = checkpoint(block, x)
"""
TRAINER = """\
def main():
    settings = TrainingArguments(
        output_dir=folder,
        {option},
    )
    Trainer(model, settings).train()
"""


def facts(source=BLOCKS, line=3, of_run=None, of_step=STEP, seconds=0.2, **given):
    at = {"file": "/home/me/train.py", "line": line, "function": "forward"}
    totals = [RecomputationEvent(calls=400, seconds=seconds, at=at)] if line else []
    needs = {"memory": memory(), "gpu": None, "device": None, "launches": None}
    needs = {**needs, "costs": Missing("no stacks"), **given}
    sources = Sources(source_of(train=source))
    return recomputation_facts(totals, SPAN, of_run or run(), of_step, **needs, sources=sources)


def on_device(**given):
    return facts(of_run=run(device="Tesla V100"), **{"gpu": GPU, **given})


def estimate(found):
    return found.share.low, found.share.likely, found.share.high


def test_recomputations_are_spread_over_the_steps():
    found = facts()
    assert found.calls_per_step == pytest.approx(4)
    assert estimate(found) == pytest.approx((0.2, 0.2, 0.2))
    assert (found.at.line, found.at.text) == (3, "x = checkpoint(block, x)")


def test_they_take_no_more_than_backward_does():
    assert estimate(facts(seconds=0.9)) == pytest.approx((0.6, 0.6, 0.6))


def test_without_any_there_is_nothing():
    assert facts(line=None) is None


@pytest.mark.parametrize(
    ("option", "line"),
    [
        pytest.param("gradient_checkpointing=True", 4, id="on"),
        pytest.param("gradient_checkpointing=args.save_memory", 4, id="by-a-setting"),
        pytest.param("gradient_checkpointing=False", 6, id="off-here"),
        pytest.param("resume_from_checkpoint=True", 6, id="another-kind-of-checkpoint"),
    ],
)
def test_where_a_library_checkpoints_the_line_is_the_one_that_tells_it_to(option, line):
    found = facts(TRAINER.format(option=option), line=6)
    assert (found.at.line, found.at.function) == (line, "forward" if line == 6 else "main")


def test_a_method_that_turns_it_on_is_such_a_line():
    source = (
        "model = build()\nmodel.gradient_checkpointing_enable()\nfor batch in loader:\n    model(batch)\n"
    )
    assert facts(source, line=4).at.line == 2


def test_a_file_that_cannot_be_read_leaves_the_line_that_ran_it():
    assert facts("not python (", line=1).at.line == 1


@pytest.mark.parametrize(
    ("given", "free"),
    [
        pytest.param({}, 8 * GB, id="what-was-left"),
        pytest.param({"available_bytes": 15 * GB}, 14 * GB, id="no-more-than-the-machine-has"),
        pytest.param({"available_bytes": None}, 14 * GB, id="of-the-machine-where-that-was-not-read"),
    ],
)
def test_free_is_what_the_machine_and_its_limits_left(given, free):
    found = facts(memory=memory(**given))
    assert (found.used_bytes, found.free_bytes, found.on_device) == (2 * GB, free, False)


def test_on_a_device_free_memory_is_the_devices():
    found = on_device()
    assert (found.used_bytes, found.free_bytes, found.on_device) == (4 * GB, 12 * GB, True)


def test_on_a_device_the_part_that_runs_again_is_one_of_the_forwards_that_it_computes():
    half = on_device(device=device(host_late=0.2), seconds=0.15)  # of three milliseconds of forward
    assert estimate(half) == pytest.approx((0.8 * 0.5 / 3.5 / 2, 0.8 * 0.5 / 3.5, 0.8 * 0.5 / 2.5))
    whole = on_device(device=device(host_late=0.2), seconds=0.9)
    assert estimate(whole) == pytest.approx((0.8 / 8, 0.8 / 4, 0.8 / 3))


LATE = device(host_late=0.6)  # the device computes for 40 % of a step and waits for the host in the rest
CHECKPOINT = Frame("checkpoint", "/lib/torch/utils/checkpoint.py", 511, Owner.TORCH)
RANDOM = Frame("get_rng_state", "/lib/torch/random.py", 29, Owner.TORCH)
LAYER = Frame("forward", "/lib/torch/nn/modules/linear.py", 134, Owner.TORCH)


QUICK_HOST = {
    "of_step": step(forward=1, backward=8, optimizer=1),
    "of_device": device(host_late=0.1),
    "seconds": 0.05,
    "costs": Missing("no stacks"),
}


def stacks(*beyond, seconds=1.5e-3, phase=Phase.OTHER):
    line = Frame("forward", "/home/me/train.py", 3, Owner.USER)
    return StackCosts(100, (StackCost(phase, (line,), beyond, 15, seconds),), {}, frozenset())


def on_late_host(of_device=LATE, queued=0.2, **given):
    needs = {
        "costs": stacks(CHECKPOINT, RANDOM),
        "seconds": 0.27,
        "launches": launches(queue=queued),
        **given,
    }
    return on_device(device=of_device, **needs)


def test_a_host_that_the_device_waits_for_takes_what_it_computes_again_and_for_checkpoints_own_calls():
    found = on_late_host()
    assert estimate(found) == pytest.approx((0.27, 0.42, 0.42))
    assert found.calling == pytest.approx(0.15)


@pytest.mark.parametrize(
    ("costs", "own"),
    [
        pytest.param(stacks(CHECKPOINT), 0.15, id="innermost"),
        pytest.param(
            stacks(LAYER, CHECKPOINT, phase=Phase.FORWARD), 0.15, id="what-a-layer-saves-for-backward"
        ),
        pytest.param(stacks(CHECKPOINT, LAYER, phase=Phase.FORWARD), 0, id="the-layers-inside"),
        pytest.param(stacks(RANDOM), 0, id="other-code"),
        pytest.param(Missing("no stacks"), 0, id="no-samples"),
    ],
)
def test_own_calls_are_those_around_what_is_checkpointed(costs, own):
    found = on_late_host(costs=costs)
    assert found.calling == pytest.approx(own)
    assert found.share.likely == pytest.approx(0.27 + own)


def test_the_step_gets_no_shorter_than_what_the_device_computes():
    computed = on_device(device=device(host_late=0.05), seconds=0.27).share
    found = on_late_host(device(host_late=0.05))
    assert found.share.likely == pytest.approx(computed.likely + 0.05)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({"queued": 30}, id="the-host-is-ahead"),
        pytest.param({"of_device": device(data_wait=0.6)}, id="the-device-waits-for-batches"),
        pytest.param(QUICK_HOST, id="the-device-computes-it-for-longer"),
        pytest.param({"of_device": Missing("no window")}, id="no-window"),
    ],
)
def test_where_the_host_sets_no_pace_the_device_tells(given):
    found = on_late_host(**given)
    alone = on_late_host(**given, launches=None)
    assert (found.share, found.calling) == (alone.share, None)


def test_on_a_cpu_the_measured_time_counts_alone():
    assert estimate(facts(launches=None, costs=stacks(CHECKPOINT))) == pytest.approx((0.2, 0.2, 0.2))


def test_without_a_window_the_device_computes_in_forward_and_backward():
    found = on_device(device=Missing("no window"), seconds=0.3)
    assert found.share.likely == pytest.approx(0.9 / 4)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        pytest.param({"memory": Missing("not sampled")}, "not sampled", id="host"),
        pytest.param({"memory": memory(total_bytes=None)}, "could not be read", id="host-without-a-total"),
        pytest.param({"of_run": run(device="xpu")}, "is not known", id="device"),
        pytest.param({"of_run": run(device="xpu"), "gpu": Missing("no NVML")}, "no NVML", id="no-nvml"),
    ],
)
def test_without_the_memory_in_use_nothing_is_said(given, why):
    found = facts(**given)
    assert isinstance(found, Missing)
    assert why in found.reason

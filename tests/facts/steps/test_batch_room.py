from __future__ import annotations

import pytest

from perfdoctor.facts.steps.batch_room import BatchRoom, batch_room
from perfdoctor.model.measured import GpuFacts
from perfdoctor.model.missing import Missing
from tests.support.facts import run
from tests.support.load_facts import GB, memory
from tests.support.script_facts import model, optimizer, optimizers

V100 = run(device="Tesla V100")
NO_GPU = Missing("no accelerator was sampled")


def gpu(peak=4 * GB, total=32 * GB, **given):
    return GpuFacts(("Tesla V100",), 0.9, peak, total, memory_peak_bytes=peak, **given)


def room(of_run=V100, of_gpu=None, of_model=None, of_optimizers=None):
    return batch_room(of_run, memory(), of_gpu or gpu(), of_model, of_optimizers)


def test_without_a_model_all_of_it_may_grow():
    assert room() == BatchRoom(4 * GB, 32 * GB)
    assert room().times == 8


@pytest.mark.parametrize(
    ("of_optimizer", "of_model", "fixed"),
    [
        pytest.param(optimizer("Adam", elements=100_000_000), {}, 1.6, id="adam"),
        pytest.param(optimizer("SGD", elements=100_000_000, momentum=True), {}, 1.2, id="momentum"),
        pytest.param(optimizer("SGD", elements=100_000_000, momentum=False), {}, 0.8, id="plain"),
        pytest.param(optimizer("Adam", elements=100_000_000), {"float16": 1.0}, 0.8, id="16-bits"),
        pytest.param(
            optimizer("SGD", elements=0, momentum=False), {}, 0.4, id="parameters-that-no-one-trains"
        ),
    ],
)
def test_parameters_gradients_and_state_do_not_grow(of_optimizer, of_model, fixed):
    found = room(of_model=model(parameters=100_000_000, **of_model), of_optimizers=optimizers(of_optimizer))
    assert found.fixed_bytes == round(fixed * GB)
    assert found.times == pytest.approx((32 - fixed) / (4 - fixed))


def test_parameters_that_lie_on_several_devices_say_nothing_of_this_one():
    assert room(of_model=model(parameters=1_000_000_000)).fixed_bytes == 0


def test_on_a_cpu_it_is_the_machines():
    assert room(run()) == BatchRoom(2 * GB, 16 * GB)


def test_what_the_device_does_not_tell_is_missing_with_its_reason():
    mig = GpuFacts(
        ("A100",), 0.9, None, None, reasons={"memory_used_bytes": "not available for a MIG instance"}
    )
    assert room(of_gpu=mig) == Missing("memory of the device: not available for a MIG instance")
    assert room(of_gpu=NO_GPU) is NO_GPU
    assert room(of_gpu=gpu(peak=None)) == Missing("memory of the device: not sampled")


def test_on_a_cpu_without_samples_it_is_missing():
    no_samples = Missing("memory was not sampled while training stepped")
    assert batch_room(run(), no_samples, None, None, None) is no_samples
    unknown = batch_room(run(), memory(peak_rss_bytes=None), None, None, None)
    assert unknown == Missing("memory of the machine: not sampled")

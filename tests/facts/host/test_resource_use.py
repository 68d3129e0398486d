from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.given import AllRanks
from perfdoctor.facts.host.resource_use import HEADROOM, resource_use
from perfdoctor.facts.steps.boundaries import find
from perfdoctor.facts.steps.span import MeasuredSpan
from perfdoctor.model.measured import CpuFacts, GpuFacts, MemoryFacts
from perfdoctor.model.missing import Missing
from tests.support import job_facts
from tests.support.facts import loader, step
from tests.support.records import MS, rows, update

SPAN = MeasuredSpan.of(find(rows([update(100)] * 100)))  # ten seconds
GB = 10**9
NONE = Missing("not sampled")
MACHINE = MemoryFacts(
    private_bytes=3 * GB, shared_bytes=GB, peak_rss_bytes=5 * GB, total_bytes=64 * GB, held_bytes=4 * GB
)


def busy(*cores):
    """A sample a second; so many cores busy before each but the first."""
    used = [sum(cores[:n]) for n in range(len(cores) + 1)]
    return [
        {"t_ns": (1000 + n * 1000) * MS, "procs": [{"pid": 1, "role": "main", "cpu_s": cpu_s}]}
        for n, cpu_s in enumerate(used)
    ]


def cpu(usable=16, other=0.0):
    return CpuFacts(usable, 1.0, 1.0, 0.0, other_cores=other)


def use(samples=(), of_cpu=NONE, memory=NONE, gpu=None, of_loader=None):
    return resource_use(samples, step(forward=100), of_cpu, memory, gpu, of_loader, None)


def test_cores_at_the_peak_are_what_a_run_needs_in_whole_ones():
    (cores,) = use(busy(1.0, 3.2, 1.5), cpu()).resources
    assert (cores.mean, cores.available) == (1.0, 16)
    assert cores.peak == pytest.approx(3.2)
    assert cores.enough == 4
    assert cores.is_idle


def test_a_little_beyond_whole_cores_needs_none_of_its_own():
    (cores,) = use(busy(1.0, 2.05), cpu()).resources
    assert cores.enough == 2


def test_the_peak_is_no_less_than_the_mean_that_processes_between_samples_are_in():
    (cores,) = use(busy(0.2, 0.3), cpu(usable=2)).resources
    assert (cores.mean, cores.peak, cores.enough) == (1.0, 1.0, 1)
    (unknown,) = use(busy(0.2, 0.3), replace(cpu(), busy_cores=None)).resources
    assert unknown.peak == pytest.approx(0.3)


def test_beside_other_programs_nobody_knows_how_many_cores_a_run_had_wanted():
    (cores,) = use(busy(1.0, 1.0), cpu(other=12.0)).resources
    assert cores.enough == 16
    assert not cores.is_idle


def test_two_samples_at_once_tell_no_rate():
    samples = [{**each, "t_ns": 1000 * MS} for each in busy(1.0)]
    assert use(samples, cpu()) is None


def test_memory_has_room_above_its_peak_and_no_more_than_there_is():
    (memory,) = use(memory=MACHINE).resources
    assert memory.peak == 4 * GB
    assert memory.enough == HEADROOM * 4 * GB
    (full,) = use(memory=MemoryFacts(None, None, 60 * GB, 64 * GB)).resources
    assert (full.peak, full.enough) == (60 * GB, 64 * GB)
    (grown,) = use(memory=replace(MACHINE, anonymous_bytes=9 * GB)).resources
    assert grown.peak == 9 * GB  # pages were read before it grew


def test_a_device_tells_its_memory_its_load_and_its_power():
    device = GpuFacts(
        names=("H100",),
        utilisation=0.4,
        memory_used_bytes=8 * GB,
        memory_total_bytes=80 * GB,
        power_w=310.0,
        memory_peak_bytes=9 * GB,
    )
    found = use(gpu=device)
    (memory,) = found.resources
    assert (memory.mean, memory.peak, memory.available) == (8 * GB, 9 * GB, 80 * GB)
    assert (found.devices, found.device_busy, found.power_w) == (1, 0.4, 310.0)


def test_an_epoch_takes_what_its_items_take():
    timed = replace(step(forward=100), samples_per_s=50.0)
    known = resource_use([], timed, NONE, MACHINE, None, loader(items=1000), None)
    assert known.epoch_s == 20.0
    assert use(memory=MACHINE, of_loader=loader(items=1000)).epoch_s is None  # samples were not counted


@pytest.mark.parametrize(("taken", "epoch_s"), [(500, 10.0), (530, 10.0), (1000, 20.0)])
def test_ranks_share_the_items_of_an_epoch_unless_each_takes_all(taken, epoch_s):
    timed, two = replace(step(forward=100), samples_per_s=50.0), AllRanks(job_facts.job(2, slow=None))
    of_loader = loader(items=1000, samples=3 * taken, epochs=3)
    assert resource_use([], timed, NONE, MACHINE, None, of_loader, two).epoch_s == epoch_s


def test_where_nothing_was_sampled_nothing_is_said():
    assert use() is None

from __future__ import annotations

import pytest

from perfdoctor.facts.timeline import BINS, timeline
from perfdoctor.model.measured import Phase
from perfdoctor.wire.step_rows import ROLLED_UP
from tests.support.records import MS, records, rows, update

BEGIN_NS = 400 * MS  # of the run that `records` makes


def sample(second: float, **procs_cpu_s: float):
    """A sample with one process for each name, `training` in the role of main."""
    procs = [
        {"pid": pid, "role": role, "cpu_s": cpu_s, "rss_bytes": 100}
        for pid, (role, cpu_s) in enumerate(procs_cpu_s.items(), start=1)
    ]
    return {"t_ns": BEGIN_NS + round(second * 1e9), "usable_cores": 4, "procs": procs}


def test_bins_lose_neither_time_nor_the_longest_step():
    steps = [update(10.0, data_wait=4.0) for _ in range(20_000)]
    steps[12_345] = update(900.0, data_wait=890.0)
    bins = timeline(records(rows(steps))).steps
    assert len(bins.longest_s) <= BINS
    assert max(bins.longest_s) == pytest.approx(0.9)
    assert bins.steps == 20_000
    assert bins.edges_s[0] == pytest.approx(0.6)
    assert bins.edges_s[-1] == pytest.approx(0.6 + 19_999 * 0.01 + 0.9)
    usual = bins.seconds[Phase.DATA_WAIT][0], bins.seconds[Phase.OTHER][0]
    assert usual == pytest.approx((0.004, 0.006))


def test_it_is_told_how_many_steps_share_a_row_where_single_ones_are_not_known():
    rolled = update(320.0, marks=32, flags=ROLLED_UP)
    assert timeline(records(rows([rolled, rolled, update(10.0)]))).steps.steps_a_row == 32
    assert timeline(records(rows([update(10.0)] * 3))).steps.steps_a_row == 1


def test_passes_in_eval_mode_that_the_report_counts_as_forward_are_forward_ones():
    bins = timeline(records(rows([update(10.0, validation=4.0, forward=1.0)] * 9)), rollouts=1.0).steps
    assert set(bins.seconds[Phase.VALIDATION]) == {0.0}
    assert bins.seconds[Phase.FORWARD][0] == pytest.approx(0.005)


def test_a_bin_is_never_empty_however_long_a_step():
    bins = timeline(records(rows([update(10.0), update(60_000.0), update(10.0)]))).steps
    assert bins.longest_s == pytest.approx((0.01, 60.0))
    assert bins.edges_s == pytest.approx((0.6, 0.61, 60.62))


def test_a_process_that_only_changes_its_role_adds_nothing_and_one_that_begins_adds_all_it_has():
    host = [sample(0, other=5.0), sample(1, main=5.5), sample(2, main=6.0, worker=0.25)]
    (cpu,) = [chart for chart in timeline(records(host=host)).charts if chart.name == "CPU"]
    curves = {curve.name: curve.means for curve in cpu.curves}
    assert curves == {"training process": (0.5, 0.5), "loader workers": (None, 0.25)}
    assert cpu.limit == 4


def test_many_samples_are_put_together_and_the_largest_is_kept():
    host = [{"t_ns": BEGIN_NS + second * 10**9, "machine_busy_cores": 1.0} for second in range(5_001)]
    host[3_000]["machine_busy_cores"] = 64.0
    (cpu,) = timeline(records(host=host)).charts
    (machine,) = cpu.curves
    assert len(machine.means) == BINS
    assert max(machine.largest) == 64.0
    assert max(machine.means) < 10


def test_the_memory_of_a_device_is_a_share_and_the_devices_stand_on_one_axis():
    row = {"utilisation": 0.5, "memory_used_bytes": 20, "memory_total_bytes": 80}
    gpus = {index: tuple(row | {"t_ns": BEGIN_NS + at * 10**9} for at in (1, 2, 3)) for index in (0, 1)}
    (device,) = timeline(records(gpus=gpus)).charts
    assert [(curve.name, curve.means) for curve in device.curves] == [
        (f"device {index} {name}", (share, share))
        for index in (0, 1)
        for name, share in (("busy", 0.5), ("memory", 0.25))
    ]


def test_what_was_not_sampled_is_absent_with_a_reason():
    told = timeline(records())
    assert told.steps is None
    assert told.charts == ()
    assert set(told.absent) == {"CPU", "Memory", "Disk", "Network", "Device"}

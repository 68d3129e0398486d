from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.predict.machine_ranges import machine_ranges
from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.widening import MachineRanges, Widening
from tests.support.facts import run
from tests.support.records import records

FITTED = {"cases": 12, "below": 0.1, "above": 0.4}


def of(ranges, device="cpu"):
    return machine_ranges(replace(records([]), ranges=ranges), run(device=device))


def test_the_ranges_of_the_runs_device_count():
    both = {"fitted": {"cpu": {"data": FITTED}, "NVIDIA H100": {"host": FITTED}}}
    widening = Widening(12, 0.1, 0.4)
    assert of(both) == MachineRanges("cpu", {Bottleneck.DATA: widening})
    assert of(both, "NVIDIA H100") == MachineRanges("NVIDIA H100", {Bottleneck.HOST: widening})
    assert of(both, "NVIDIA A100") == MachineRanges("NVIDIA A100")


@pytest.mark.parametrize(
    "damaged",
    [
        None,
        {},
        {"fitted": []},
        {"fitted": {"cpu": 7}},
        {"fitted": {"cpu": {"magic": FITTED, "data": []}}},
        {"fitted": {"cpu": {"data": FITTED | {"cases": 3}}}},
        {"fitted": {"cpu": {"data": FITTED | {"below": -1.0}}}},
    ],
)
def test_a_file_that_tells_too_little_changes_nothing(damaged):
    assert of(damaged) == MachineRanges("cpu")

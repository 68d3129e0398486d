from __future__ import annotations

from dataclasses import replace

from perfdoctor.model.resource_use import ResourceUse, UsedResource
from perfdoctor.render.pages.resource_use import costs, enough, used
from tests.support import reports

GB = 1e9
USE = ResourceUse(
    resources=(
        UsedResource("cores", False, 1.1, 3.9, 16, 4),
        UsedResource("memory", True, None, 9 * GB, 64 * GB, 11.25 * GB),
        UsedResource("device memory", True, 60 * GB, 70 * GB, 80 * GB, 80 * GB),
    ),
    device_busy=0.42,
    devices=1,
    power_w=310,
    epoch_s=1800.0,
)


def test_what_was_used_stands_in_one_line():
    assert used(USE) == (
        "1.1 of 16 cores (peak 3.9), 9 GB of 64 GB memory, 70 GB of 80 GB device memory,"
        " the device for 42% of the time, 310 W"
    )


def test_only_what_is_used_by_half_or_less_would_do_with_less():
    assert enough(USE) == "4 cores and 11.2 GB of memory (25% to spare)"
    assert enough(ResourceUse((USE.resources[2],))) == ""
    assert enough(ResourceUse((UsedResource("cores", False, 0.9, 1.0, 2, 1),))) == "1 core"


def test_a_price_gives_the_run_an_epoch_and_what_the_first_finding_saves():
    first = replace(reports.STARVED.findings[0], gain=replace(reports.STARVED.findings[0].gain, likely=2.0))
    run = replace(reports.STARVED, use=USE, findings=(first,), run=replace(reports.RUN, duration_s=7200.0))
    assert list(costs(run, 3.2)) == ["this run 6.40", "an epoch 1.60", "finding 1 saves 0.80 of each epoch"]


def test_a_run_whose_epochs_are_not_known_saves_of_its_own_time():
    assert list(costs(replace(reports.HEALTHY, use=None), 0.01)) == ["this run 8.7e-05"]
    assert [each.rpartition(" of ")[2] for each in costs(replace(reports.STARVED, use=None), 3.2)][1:] == [
        "the run"
    ]

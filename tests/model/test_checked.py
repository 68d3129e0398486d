from __future__ import annotations

import pytest

from perfdoctor.model.change import Effort
from perfdoctor.model.checked import Checked
from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.tip import TipHeading


@pytest.mark.parametrize(
    ("checked", "on_device", "device", "found"),
    [
        (Checked.SCRIPTS, None, "cpu", Checked.SCRIPTS),
        (Checked.SCRIPTS, None, "NVIDIA H100", Checked.CPU_SCRIPTS),
        (Checked.SCRIPTS, Checked.TRACES, "NVIDIA H100", Checked.TRACES),
        (Checked.SCRIPTS, Checked.TRACES, "cpu", Checked.SCRIPTS),
        (Checked.PUBLISHED, None, "NVIDIA H100", Checked.PUBLISHED),
        (Checked.FACTS, None, "NVIDIA H100", Checked.FACTS),
    ],
)
def test_scripts_were_watched_on_cpus(checked, on_device, device, found):
    heading = TipHeading("A", Bottleneck.DATA, Effort.FLAG, ("cpu",), ("time",), checked, on_device)
    assert heading.checked_for(device) is found


def test_only_a_gain_that_was_measured_where_it_is_promised_counts_as_measured():
    assert [checked for checked in Checked if checked.is_measured] == [Checked.SCRIPTS]
    assert Checked.CPU_SCRIPTS.label == "cpu scripts"

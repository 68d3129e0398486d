"""What is told of `other`, so that the phases of a step and the classes of the verdict can be reconciled."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.diagnosis.other_time import lines_with_waits, with_waits
from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.lines import LineSeconds, StepLines
from perfdoctor.model.measured import GpuFacts, Location, Phase
from tests.diagnosis.test_verdict import conclusion
from tests.support.facts import line, stacks, step

NOTHING = dict.fromkeys(Bottleneck, 0.0)


def test_other_is_told_by_the_classes_that_its_lines_are_charged_to():
    found = conclusion(step(other=60, forward=40), stacks(line(0.5, 1, "compute"), line(0.1, 2)))
    assert found.classes[Bottleneck.COMPUTE] == pytest.approx(0.9)
    told = NOTHING | {Bottleneck.COMPUTE: 0.5, Bottleneck.HOST: 0.1}
    assert found.other.classes == pytest.approx(told)
    assert found.other.in_passes == 0.0
    assert found.other.elsewhere == pytest.approx(0.5)


def test_the_part_that_is_timed_between_the_passes_is_told():
    of_step = step(other=10, forward=60, backward=30)
    found = conclusion(of_step, stacks(line(0.3, 1, "logging"), line(0.1, 2)))
    assert found.other.in_passes == pytest.approx(0.3)
    assert found.other.classes == pytest.approx(NOTHING | {Bottleneck.HOST: 0.4})
    assert found.other.elsewhere == pytest.approx(0.3)


def test_without_samples_it_is_the_hosts_as_its_phase_suggests():
    found = conclusion(step(other=10, forward=90))
    assert found.other.classes == pytest.approx(NOTHING | {Bottleneck.HOST: 0.1})
    assert found.other.elsewhere == 0.0


def test_a_device_that_was_looked_at_tells_the_classes_and_not_what_other_holds():
    gpu = GpuFacts(("A100",), 0.95, None, None)
    assert conclusion(step(forward=20, other=60), gpu, device="cuda").other is None
    assert conclusion(step(forward=20, other=60), device="mps").other is not None


def test_waits_for_a_thread_of_the_scripts_own_are_drawn_as_waits_for_data():
    of_step, seen = step(other=60, forward=40), stacks(line(0.5, 1, "queue"), line(0.1, 2))
    found = conclusion(of_step, seen)
    assert found.classes[Bottleneck.DATA] == pytest.approx(0.5)
    assert found.other.classes == pytest.approx(NOTHING | {Bottleneck.HOST: 0.1})
    drawn = with_waits(of_step, seen)
    assert {phase: drawn.share(phase) for phase in (Phase.DATA_WAIT, Phase.OTHER, Phase.FORWARD)} == (
        pytest.approx({Phase.DATA_WAIT: 0.5, Phase.OTHER: 0.1, Phase.FORWARD: 0.4})
    )
    assert sum(drawn.seconds.values()) == pytest.approx(drawn.mean_s)


def test_what_builds_a_batch_is_no_wait():
    of_step = step(other=60, forward=40)
    assert with_waits(of_step, stacks(line(0.5, 1, "data"))) == of_step
    assert with_waits(of_step, None) == of_step


def test_the_lines_that_wait_are_drawn_in_that_phase_too():
    def at(number, phase=Phase.OTHER):
        return LineSeconds(Location("train.py", number), phase, 0.01, 0.01, 0.1, 9)

    lines = StepLines(30, (at(1), at(2), at(1, Phase.FORWARD)), {})
    seen = stacks(replace(line(0.5, 1, "queue"), at=Location("train.py", 1)), line(0.1, 2))
    drawn = lines_with_waits(lines, seen).lines
    assert [each.phase for each in drawn] == [Phase.DATA_WAIT, Phase.OTHER, Phase.FORWARD]
    assert lines_with_waits(lines, None) == lines

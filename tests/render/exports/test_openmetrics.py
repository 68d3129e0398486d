from __future__ import annotations

import re

import pytest

from perfdoctor.render.exports.openmetrics import openmetrics
from tests.support import reports

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = rf'{NAME}="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(rf"({NAME})\{{({LABEL}(?:,{LABEL})*)\}} (-?[0-9.e+-]+)")


def read(text):
    """Samples by (name, labels); metadata comes first, families do not mix, nothing follows the end."""
    assert text.endswith("\n# EOF\n")
    found, family, seen = {}, "", set()
    for line in text.splitlines()[:-1]:
        meta = re.fullmatch(rf"# (TYPE|UNIT|HELP) ({NAME}) (\S.*)", line)
        if meta:
            if meta[2] != family:
                assert meta[1] == "TYPE"
                assert meta[3] == "gauge"
                assert meta[2] not in seen
                family = meta[2]
                seen.add(family)
            if meta[1] == "UNIT":
                assert family.endswith("_" + meta[3])
            continue
        sample = SAMPLE.fullmatch(line)
        assert sample, line
        assert sample[1] == family
        assert (sample[1], sample[2]) not in found
        found[sample[1], sample[2]] = float(sample[3])
    return found


def test_step_phases_shares_and_gains_are_gauges():
    report = reports.STARVED
    found = read(openmetrics(report, "r"))
    assert found["perfdoctor_step_seconds", 'run="r"'] == pytest.approx(report.steps.mean_s)
    phases = [value for (name, _), value in found.items() if name == "perfdoctor_step_phase_seconds"]
    assert sum(phases) == pytest.approx(report.steps.mean_s, rel=1e-6)
    shares = [value for (name, _), value in found.items() if name == "perfdoctor_class_ratio"]
    assert sum(shares) == pytest.approx(1.0, rel=1e-6)
    gain = report.findings[0]
    label = f'run="r",finding="{gain.id}",bound="likely"'
    assert found["perfdoctor_gain_ratio", label] == pytest.approx(gain.gain.likely)
    assert found["perfdoctor_verdict", 'run="r",verdict="data"'] == 1


def test_a_hostile_name_stays_inside_its_label():
    found = read(openmetrics(reports.STARVED, 'x"} 1\n# EOF\\'))
    assert all(labels.startswith('run="x\\"} 1\\\\n# EOF\\\\"') for _, labels in found)


def test_a_run_without_steps_has_its_verdict_only():
    names = {name for name, _ in read(openmetrics(reports.NO_STEPS, "r"))}
    assert "perfdoctor_verdict" in names
    assert not any(name.startswith("perfdoctor_step") for name in names)

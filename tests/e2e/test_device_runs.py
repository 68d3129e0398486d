"""Runs that were recorded on a device (docs/gpu.md names it): what a report says of them on any machine.

They are scripts of bench/loads/gpu; the gains were measured there, against the cured twins.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from perfdoctor import reporting
from perfdoctor.diagnosis import trace_report
from perfdoctor.diagnosis.report import Report
from perfdoctor.model.concluded import Verdict
from perfdoctor.runs import windows
from perfdoctor.trace.measure import files
from tests.support.paths import ROOT

RECORDED = ROOT / "tests" / "data" / "device_runs"


def report_of(name: str, folder: Path) -> Report:
    with tarfile.open(RECORDED / f"{name}.tar.xz") as archive:
        archive.extractall(folder)
    return reporting.examine(folder / name)[0]


@pytest.mark.parametrize(
    ("name", "verdict", "finding", "line"),
    [
        ("accidental_float64", Verdict.COMPUTE, "accidental-float64", 12),
        ("cpu_fallback", Verdict.HOST, "cpu-fallback", 15),
        ("device_sync_cpu", Verdict.HOST, "device-sync-in-loop", 17),
        ("many_small_copies", Verdict.TRANSFER, "many-small-copies", 13),
        ("misaligned_shapes", Verdict.COMPUTE, "misaligned-shapes", None),  # the product of a layer
        ("round_trips", Verdict.TRANSFER, "round-trips", 16),
        ("slow_kernel", Verdict.COMPUTE, "slow-kernel", 14),
        ("tensors_created_on_host", Verdict.DATA, "tensors-created-on-host", 13),
    ],
)
def test_the_planted_cause_is_first_at_its_line(
    name: str, verdict: Verdict, finding: str, line: int | None, tmp_path: Path
) -> None:
    report = report_of(name, tmp_path)
    first = report.findings[0]
    assert (report.diagnosis.verdict, first.id) == (verdict, finding)
    places = [(at.line, Path(at.file).name) for at in first.advice.at]
    assert places[:1] == ([(line, f"{name}.py")] if line else [])


@pytest.mark.parametrize(
    ("name", "measured"),
    [
        ("accidental_float64", 5.86),
        ("cpu_fallback", 5.99),
        ("device_sync_cpu", 1.56),
        ("many_small_copies", 2.15),
        ("misaligned_shapes", 4.34),
        ("round_trips", 2.08),
        ("slow_kernel", 3.71),
    ],
)
def test_the_measured_gain_lies_in_the_predicted_range(name: str, measured: float, tmp_path: Path) -> None:
    gain = report_of(name, tmp_path).findings[0].gain
    assert gain.low <= measured <= gain.high


@pytest.mark.parametrize("name", ["cpu_fallback", "device_sync_cpu", "many_small_copies", "slow_kernel"])
def test_a_window_by_itself_has_the_verdict_of_its_run(name: str, tmp_path: Path) -> None:
    report = report_of(name, tmp_path)
    paths = [window.path for window in windows.of_run(tmp_path / name, None)]
    assert (
        trace_report.report(files.measured(paths, 1 << 30, 1)).diagnosis.verdict is report.diagnosis.verdict
    )


def test_a_language_model_in_16_bits_that_clips_its_gradients_is_healthy(tmp_path: Path) -> None:
    report = report_of("story_writer", tmp_path)
    assert report.diagnosis.verdict is Verdict.HEALTHY
    assert report.findings == ()


def test_what_a_gradient_scaler_reads_is_put_down_to_no_line_of_the_script(tmp_path: Path) -> None:
    """Nor is it advised against: the scaler has to know whether gradients are finite."""
    report = report_of("runs_amp", tmp_path)
    assert report.diagnosis.verdict is Verdict.HOST
    assert [finding.id for finding in report.findings] == ["interpreter-bound"]

"""Every kind of training loop in tests/loops: steps are counted exactly, phases partition the wall time.

A script states its truth in a comment, `# truth: steps=24 marker=update ...`; what it prints after `perf:`
are the seconds it measured itself, from the first iteration's begin to the last update's end, and by phase.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from perfdoctor import reporting
from perfdoctor.model.measured import Marker, Phase, StepFacts
from perfdoctor.model.report import Report
from perfdoctor.runs import directory
from perfdoctor.runs import records as recorded
from perfdoctor.wire.step_rows import DISTURBED, PHASE_COLUMNS, ROLLED_UP
from tests.support.paths import LOOPS

pytestmark = pytest.mark.process

pytest.importorskip("torch")

# One of each kind; the others take the same ways through the probe and are left to the whole run.
QUICK = set(
    "plain_script gan gradient_accumulation lightning_automatic hf_trainer compile_module workers_fork"
    " torchrun_two_ranks no_module without_torch ends_by_exception".split()
)
ALL = [
    pytest.param(script, marks=() if script.stem in QUICK else pytest.mark.slow, id=script.stem)
    for script in sorted(LOOPS.glob("*.py"))
]
PARTITION = 0.01  # phases add up to the wall time within this share of it
ATTEMPTS = 3  # a script that is held up between our clock and its own disagrees; one that is not must agree
PAUSE_S = 5.0  # what keeps both cores busy beside it may be over by then
WALL, WALL_S = (
    0.03,
    0.006,
)  # our wall time against the script's own: a share of it, and its first batch or call
PHASE, PHASE_S = (
    0.05,
    0.004,
)  # one phase against the script's own figure: a share of the wall time, and call costs
TIMEOUT_S = 120


@dataclass(frozen=True)
class Truth:
    """What a script says of itself."""

    steps: int
    marker: str | None
    skipped: int
    samples: int | None
    updates_per_step: float | None
    backwards_per_step: float | None
    workers: int | None
    ranks: int
    exit: int
    launcher: str | None
    framework: str | None
    stderr: str
    windows: bool


def truth_of(script: Path) -> Truth:
    """Read the `# truth:` line."""
    found = re.search(r"^# truth: (.+)$", script.read_text(), re.MULTILINE)
    assert found, f"{script.name} states no truth"
    words = dict(word.split("=") for word in found[1].split())
    whole = {name: int(words[name]) for name in ("samples", "workers") if name in words}
    ratios = {
        name: float(words[name]) for name in ("updates_per_step", "backwards_per_step") if name in words
    }
    return Truth(
        steps=int(words["steps"]),
        marker=words.get("marker"),
        skipped=int(words.get("skipped", 0)),
        samples=whole.get("samples"),
        updates_per_step=ratios.get("updates_per_step"),
        backwards_per_step=ratios.get("backwards_per_step"),
        workers=whole.get("workers"),
        ranks=int(words.get("ranks", 1)),
        exit=int(words.get("exit", 0)),
        launcher=words.get("launcher"),
        framework=words.get("framework"),
        stderr=words.get("stderr", "same"),
        windows=words.get("windows") != "off",
    )


@dataclass(frozen=True)
class Outcome:
    """A script run bare and watched."""

    bare: subprocess.CompletedProcess[str]
    watched: subprocess.CompletedProcess[str]
    records: recorded.RunRecords
    report: Report


def run_both(script: Path, truth: Truth, folder: Path) -> Outcome:
    """Run the script bare and watched, side by side, each in a folder of its own."""
    command = [str(script)]
    if truth.launcher == "torchrun":
        command = ["-m", "torch.distributed.run", "--nproc-per-node", str(truth.ranks), str(script)]
    places = [folder / "bare", folder / "watched"]
    for place in places:
        place.mkdir()
    watch = ["-m", "perfdoctor", "run", "-q", "--no-stacks", "--out", str(folder / "runs")]
    if not truth.windows:
        watch.append("--no-profiler")  # the script times calls that a window would open or close in
    with _start(command, places[0]) as bare, _start([*watch, *command], places[1]) as watched:
        ended = [_finish(process) for process in (bare, watched)]
    assert [list(place.iterdir()) for place in places] == [[], []], "a run leaves files behind"
    run = directory.latest(folder / "runs")
    return Outcome(ended[0], ended[1], recorded.read(run), reporting.judge(run))


def _start(command: list[str], place: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *command], cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def _finish(process: subprocess.Popen[str]) -> subprocess.CompletedProcess[str]:
    try:
        stdout, stderr = process.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


def without_timings(stdout: str) -> str:
    """What the script printed, but for the seconds it measured."""
    return re.sub(r"^perf: .*\n", "", stdout, flags=re.MULTILINE)


def own_timings(stdout: str) -> tuple[float | None, dict[Phase, float]]:
    """The wall time and the phases that the script measured itself."""
    found = re.search(r"^perf: (\S+)(.*)$", stdout, re.MULTILINE)
    if not found:
        return None, {}
    phases = dict(word.split("=") for word in found[2].split())
    return float(found[1]), {Phase(name): float(seconds) for name, seconds in phases.items()}


@pytest.mark.shows(
    "raises",
    "os-exit",
    "no-torch",
    "no-training-loop",
    "no-loader",
    "many-optimizers",
    "compile",
    "spawn",
    "fork",
    "frameworks",
    "no-other-writes",
    "own-profiler",
)
@pytest.mark.parametrize("script", ALL)
def test_counts_the_steps_and_partitions_the_time_of(script: Path, tmp_path: Path) -> None:
    truth = truth_of(script)
    if truth.framework:
        pytest.importorskip(truth.framework)
    for attempt in range(ATTEMPTS):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        outcome = run_both(script, truth, folder)
        assert_unnoticed(outcome, truth)
        steps = outcome.report.steps
        if truth.steps == 0:
            assert steps is None
            return
        assert steps is not None
        assert_counted(steps, outcome, truth)
        assert_partitioned(steps, outcome)
        try:
            assert_agrees_with_the_scripts_own_clock(steps, outcome)
        except AssertionError:
            if attempt == ATTEMPTS - 1:
                raise
            time.sleep(PAUSE_S * (attempt + 1))
        else:
            return


def assert_unnoticed(outcome: Outcome, truth: Truth) -> None:
    """Same status, same output, compile counters included."""
    bare, watched = outcome.bare, outcome.watched
    assert (bare.returncode, watched.returncode) == (truth.exit, truth.exit), watched.stderr
    assert without_timings(watched.stdout) == without_timings(bare.stdout)
    if truth.stderr == "same":
        assert re.sub(r"^perfdoctor: .*\n\Z", "", watched.stderr, flags=re.MULTILINE) == bare.stderr


def assert_counted(steps: StepFacts, outcome: Outcome, truth: Truth) -> None:
    """The steps, what marked them, and what each consists of."""
    assert (steps.count, steps.marker.name.lower()) == (truth.steps, truth.marker)
    assert steps.skipped_updates == truth.skipped
    assert outcome.report.run.ranks == truth.ranks
    if truth.samples is not None:
        assert steps.samples_per_s is not None
        assert steps.samples_per_s * steps.wall_s == pytest.approx(truth.samples, rel=1e-6)
    if truth.updates_per_step is not None:
        assert steps.updates_per_step == pytest.approx(truth.updates_per_step)
    if truth.backwards_per_step is not None:
        assert steps.backwards_per_step == pytest.approx(truth.backwards_per_step)
    if truth.workers is not None:
        assert outcome.report.loader is not None
        assert outcome.report.loader.num_workers == truth.workers


def assert_partitioned(steps: StepFacts, outcome: Outcome) -> None:
    """Phases are exclusive and leave no gap: in each raw row, and in the mean step."""
    assert all(seconds >= 0 for seconds in steps.seconds.values())
    assert sum(steps.seconds.values()) == pytest.approx(steps.mean_s, rel=PARTITION)
    assert steps.mean_s * steps.count == pytest.approx(steps.wall_s, rel=PARTITION)
    for rank in outcome.records.ranks.values():
        rows = rank.steps
        if rows is None or not len(rows):
            continue
        assert np.array_equal(rows["begin_ns"][1:], rows["end_ns"][:-1])
        spent = sum(rows[name] for name in PHASE_COLUMNS)
        assert np.all(spent <= rows["end_ns"] - rows["begin_ns"])
        if outcome.watched.returncode == 0:
            assert rows["marker"][-1] == Marker.END


def looked_s(steps: StepFacts, records: recorded.RunRecords) -> tuple[float, dict[Phase, float]]:
    """Seconds by which looks and windows made steps of the first rank longer, and their phases."""
    rows = records.ranks[min(records.ranks)].steps
    assert rows is not None
    disturbed = rows[(rows["flags"] & (DISTURBED | ROLLED_UP)) == DISTURBED]

    def longer_s(taken_ns: np.ndarray, mean_s: float) -> float:
        return max(0.0, float(taken_ns.sum()) / 1e9 - mean_s * len(disturbed))

    wall_s = longer_s(disturbed["end_ns"] - disturbed["begin_ns"], steps.mean_s)
    phases = {
        phase: longer_s(disturbed[column], steps.seconds.get(phase, 0.0))
        for phase, column in zip(Phase, PHASE_COLUMNS, strict=False)
    }
    return wall_s, phases


def assert_agrees_with_the_scripts_own_clock(steps: StepFacts, outcome: Outcome) -> None:
    """Wall time and phases, against what the script measured around the same calls.

    Its clock also ran while steps were looked at, which the report leaves out.
    """
    wall_s, phases = own_timings(outcome.watched.stdout)
    if wall_s is None:
        return
    looked_wall_s, looked_phases = looked_s(steps, outcome.records)
    wall_s -= looked_wall_s
    assert steps.wall_s == pytest.approx(wall_s, rel=WALL, abs=WALL_S)
    for phase, seconds in phases.items():
        assert steps.seconds.get(phase, 0.0) * steps.count == pytest.approx(
            seconds - looked_phases.get(phase, 0.0), abs=PHASE * wall_s + PHASE_S
        ), phase

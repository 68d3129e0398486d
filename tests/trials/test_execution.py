"""What is made of an execution's end: made-up ends here, real ones in test_conduct."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from perfdoctor.errors import PerfdoctorError
from perfdoctor.model.trial import ORIGINAL, Execution, ExecutionEnd, Setting, Variant
from perfdoctor.probe.trial.tweak import ROUNDING
from perfdoctor.trials import execution
from perfdoctor.trials.plan import FIRST_STEP_S, TrialPlan
from perfdoctor.trials.sandbox.protect import Protection
from perfdoctor.watch import launch
from perfdoctor.watch.options import Options
from tests.support.trial_runs import WORKERS

RANKS = "rank 1 failed first, with exit code 1; the others were ended by torchrun"
GB = 10**9


@pytest.fixture
def ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Execution]:
    """An execution that printed `text` and ended so, with `free` bytes left on the disk."""

    def end(text: str = "", free: int = GB, memory: int = 0, **outcome: Any) -> Execution:
        def run(words: object, options: Options, *more: object) -> launch.CommandExit:
            assert options.trial is not None
            options.trial.log.write_text(text)
            return launch.CommandExit(None, **{"status": 1, **outcome})

        monkeypatch.setattr(launch, "run", run)
        monkeypatch.setattr(execution, "guarded", lambda executions: nullcontext())
        monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=free))
        executor = execution.Executor(("train.py",), tmp_path, Protection("none", "", memory))
        return executor.calibrate()[0]

    return end


def test_of_several_ranks_the_one_that_failed_first_is_named_with_its_error(ended) -> None:
    text = "[rank1]: ValueError: no data\n[rank0]: RuntimeError: Connection closed by peer\n"
    found = ended(text, failed=RANKS, failed_rank=1)
    assert (found.ending, found.error) == (ExecutionEnd.FAILED, "rank 1: ValueError: no data")


def test_where_no_line_is_marked_as_that_ranks_how_it_ended_is_told(ended) -> None:
    assert ended("", failed=RANKS, failed_rank=1).error == RANKS
    assert ended("KeyError: 'x'\n", failed=RANKS, failed_rank=1).error == f"{RANKS}: KeyError: 'x'"


def test_without_an_error_the_exit_status_or_the_signal_is_told(ended) -> None:
    assert ended("ValueError: no data\n").error == "ValueError: no data"
    assert ended(status=3).error == "exit status 3"
    assert ended(status=139, signal=11).error == "ended by signal 11"


def test_a_signal_that_was_meant_for_the_trial_is_told(ended) -> None:
    found = ended(status=143, signal=15, ended_by=15)
    assert (found.ending, found.ended_by) == (ExecutionEnd.INTERRUPTED, 15)


def test_a_failure_on_a_full_disk_is_the_disks(ended, tmp_path: Path) -> None:
    with pytest.raises(PerfdoctorError, match="no space left in") as caught:
        ended("OSError: [Errno 28] No space left on device\n", free=1000)
    assert str(tmp_path) in str(caught.value)
    assert "--out FOLDER" in str(caught.value.hint)
    assert caught.value.exit_code == 2


def test_what_does_not_fit_into_memory_is_told(ended) -> None:
    with pytest.raises(PerfdoctorError, match=r"kept in memory, 0\.2 GB at most, and did not fit"):
        ended("OSError: [Errno 28] No space left on device\n", memory=GB // 5)


def test_a_full_disk_of_the_scripts_own_is_the_scripts_failure(ended) -> None:
    found = ended("OSError: [Errno 28] No space left on device: '/dev/shm/x'\n")
    assert (found.ending, found.error) == (
        ExecutionEnd.FAILED,
        "OSError: [Errno 28] No space left on device: '/dev/shm/x'",
    )


def test_what_does_not_compile_is_given_no_longer_than_the_plan_says_to_get_to_its_first_step() -> None:
    plan = TrialPlan(rounds=5, warm_up_steps=5, steps=50, execution_s=8.0, limit_s=100.0, first_step_s=90.0)
    compiled = Variant((Setting("compile", ("--compile",), {}, ROUNDING),))
    assert execution.first_step_s(plan, ORIGINAL, WORKERS) == 90.0
    assert execution.first_step_s(plan, ORIGINAL, compiled) == FIRST_STEP_S


def test_how_a_script_ends_once_it_was_ended_says_nothing_about_it(monkeypatch, tmp_path: Path) -> None:
    """But that a rank failed before, while the others waited for it, does."""
    told = {
        (ExecutionEnd.MEASURED, True, RANKS): ExecutionEnd.MEASURED,
        (ExecutionEnd.TOO_SHORT, True, None): ExecutionEnd.TOO_SHORT,
        (ExecutionEnd.TOO_SHORT, True, RANKS): ExecutionEnd.FAILED,
        (ExecutionEnd.MEASURED, False, None): ExecutionEnd.FAILED,
    }
    monkeypatch.setattr(execution.recorded, "read", lambda path: None)
    monkeypatch.setattr(execution, "guarded", lambda executions: nullcontext())
    for (ending, early, failed), expected in told.items():
        found = Execution(0, ending, 0.1, ended_early=early)
        monkeypatch.setattr(execution.measure, "execution", lambda *given, found=found: found)
        outcome = launch.CommandExit(tmp_path, 1, failed=failed, failed_rank=1)
        monkeypatch.setattr(launch, "run", lambda *given, outcome=outcome: outcome)
        executor = execution.Executor(("train.py",), tmp_path, Protection("none", ""))
        plan = TrialPlan(rounds=5, warm_up_steps=5, steps=50, execution_s=8.0, limit_s=100.0)
        assert executor.execute(ORIGINAL, "1-base", 0, plan).ending is expected

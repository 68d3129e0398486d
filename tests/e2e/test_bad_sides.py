"""Trainings that do not bear a neighbour, or a rest: each is named or measured, and nothing is left running."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

pytest.importorskip("torch")

from perfdoctor import trials
from perfdoctor.errors import PerfdoctorError
from perfdoctor.model.note import Note, Remark
from perfdoctor.model.trial import ExecutionEnd, Outcome, Trial, Variant
from perfdoctor.trials import lockstep, plan
from perfdoctor.trials.sandbox import leftovers
from perfdoctor.trials.settings import flags, tweak_catalogue

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(300)]

SCRIPT = """
import os, signal, socket, sys, threading, time
import torch
from torch.utils.data import DataLoader, TensorDataset
BEFORE
model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(8)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.ones(4096, 64)), batch_size=64)
rested, stepped = False, time.monotonic()
for epoch in range(100_000):
    for (x,) in loader:
        now, before = time.monotonic(), stepped
        stepped = now
        if now - before > RESTED_S and not rested:
            rested = True
            WHEN
        EACH
        optimizer.zero_grad(set_to_none=False)
        model(x).square().mean().backward()
        optimizer.step()
"""
RESTED_S = 0.4  # between two steps, where a turn of the other one lay
ONLY_ONE = "lock = socket.socket(socket.AF_UNIX); lock.bind('\\0' + os.path.basename(__file__) + 'PID')"


class Unseen:
    """A display that nobody looks at."""

    def begin(self, what: str, done: int, of: int, left_s: float | None) -> None:
        """What is executed now."""

    def say(self, remark: Remark) -> None:
        """What is said before."""

    def end(self) -> None:
        """All is over."""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    yield
    kept = (tmp_path / ".perfdoctor" / "trials").glob("*/*")
    assert not [process for path in kept for process in leftovers.of(path, psutil.process_iter())]


def trial(folder: Path, *words: str, before: str = "", when: str = "pass", each: str = "pass") -> Trial:
    """Try these flags, for 45 s, with a script that does `when` at the begin of its second turn."""
    code = SCRIPT.replace("BEFORE", before).replace("RESTED_S", str(RESTED_S))
    code = code.replace("WHEN", when).replace("EACH", each).replace("PID", folder.name)
    (folder / "train.py").write_text(code)
    variant = Variant(flags.read(words, tweak_catalogue.tweaks()))
    request = trials.Request(("train.py",), (variant,), str(folder), seconds=45.0)
    return trials.run(request, Unseen())


def executed_whole(found: Trial) -> list[str]:
    """Why it did not take turns, if it did not."""
    notes = [note for note in found.notes if isinstance(note, Note)]
    return [str(note.values["because"]) for note in notes if note.slug == "whole-executions"]


def measured(found: Trial) -> bool:
    """Whether original and variant were measured at least once."""
    both = (found.originals, found.verdicts[0].executions)
    return all(any(each.ending is ExecutionEnd.MEASURED for each in executions) for executions in both)


def test_a_variant_that_is_killed_in_its_turn_is_executed_by_itself(tmp_path: Path) -> None:
    found = trial(
        tmp_path, "--workers", "1", when="loader.num_workers and os.kill(os.getpid(), signal.SIGKILL)"
    )
    # Nobody but the kernel kills what a trial started: for memory, of which there is more without the other.
    (why,) = executed_whole(found)
    assert "fails beside another: ended by signal 9" in why
    assert measured(found)


def test_a_second_one_that_fails_in_its_turn_for_want_of_what_the_first_holds_is_executed_by_itself(
    tmp_path: Path,
) -> None:
    found = trial(tmp_path, "--zero-grad-none", when=ONLY_ONE)
    (why,) = executed_whole(found)
    assert "fails beside another: OSError: [Errno 98] Address already in use" in why
    assert measured(found)


def test_a_variant_that_hangs_in_its_turn_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (plan, lockstep):
        monkeypatch.setattr(module, "SLACK_S", 5.0)
    found = trial(tmp_path, "--workers", "1", when="loader.num_workers and time.sleep(10_000)")
    assert executed_whole(found) == ["--workers 1 did not go on after it had rested"]
    assert found.verdicts[0].outcome is not Outcome.FASTER


def test_what_goes_to_the_background_is_ended(tmp_path: Path) -> None:
    away = "if os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)"
    with suppress(PerfdoctorError):  # where no step was made before it was ended
        trial(tmp_path, "--zero-grad-none", before=away)


def test_a_script_that_handles_the_signals_of_jobs_itself_takes_turns(tmp_path: Path) -> None:
    handled = "\n".join(
        f"signal.signal(signal.{name}, lambda *heard: None)" for name in ("SIGCONT", "SIGTSTP", "SIGTTOU")
    )
    found = trial(tmp_path, "--zero-grad-none", before=handled)
    assert not executed_whole(found)
    assert measured(found)


def test_a_script_that_ends_for_a_rest_is_executed_by_itself(tmp_path: Path) -> None:
    fails = "def goes_on(*heard): raise TimeoutError('held up')\nsignal.signal(signal.SIGCONT, goes_on)"
    found = trial(tmp_path, "--zero-grad-none", before=fails)
    (why,) = executed_whole(found)
    assert "fails beside another: TimeoutError: held up" in why
    assert measured(found)


def test_a_time_limit_within_a_library_that_a_rest_exceeds_is_no_failure_of_the_variant(
    tmp_path: Path,
) -> None:
    watchdog = "def late(*heard): raise RuntimeError('no heartbeat')\nsignal.signal(signal.SIGALRM, late)"
    heartbeat = "signal.setitimer(signal.ITIMER_REAL, 0.9)"
    found = trial(tmp_path, "--zero-grad-none", before=watchdog, each=heartbeat)
    (why,) = executed_whole(found)
    assert "fails beside another: RuntimeError: no heartbeat" in why
    assert measured(found)

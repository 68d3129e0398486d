from __future__ import annotations

import shutil
import threading

import pytest

from perfdoctor import reporting
from perfdoctor.cli import following
from perfdoctor.cli.following import EARLY_S, LATER_S, LOOK_S, LOOKS_SHARE, Following, ReportsSoFar
from perfdoctor.errors import NoSuchRun, NotARun
from perfdoctor.runs import job
from tests.support import reports
from tests.support.jobs import write_job


class Clock:
    """A clock that stands until it is set."""

    now_s = 100.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def made(monkeypatch):
    """The reports that were asked for."""
    asked = []
    monkeypatch.setattr(job, "siblings", lambda path: [])
    monkeypatch.setattr(reporting, "judge", lambda path: asked.append(path) or reports.STARVED)
    return asked


def stepped(so_far, clock, at_s):
    """There is a step, `at_s` after the first one; whatever that begins is waited for."""
    clock.now_s = 100.0 + at_s
    so_far.stepped()
    for thread in threading.enumerate():
        if thread.name == following.THREAD:
            thread.join()


def test_reports_come_soon_after_the_first_steps_and_then_rarely(tmp_path, made):
    clock = Clock()
    so_far = ReportsSoFar(tmp_path, clock)
    counts = []
    for second in range(int(EARLY_S[-1] + 2 * LATER_S)):
        stepped(so_far, clock, second)
        counts.append(len(made))
    first, second, third = (int(early) for early in EARLY_S)
    assert counts[first - 1 : first + 1] == [0, 1]
    assert counts[second - 1 : second + 1] == [1, 2]
    assert counts[third - 1 : third + 1] == [2, 3]
    assert counts[int(third + LATER_S) - 1] == 3
    assert counts[int(third + LATER_S)] == 4
    assert EARLY_S[-1] < 30
    assert so_far.newest is reports.STARVED


def test_reports_that_cost_much_come_more_rarely_still(tmp_path, made, monkeypatch):
    clock, spent = Clock(), iter(range(0, 10_000, 3))  # each takes three seconds
    monkeypatch.setattr(following.time, "thread_time", lambda: float(next(spent)))
    so_far = ReportsSoFar(tmp_path, clock)
    at = []
    for second in range(2_000):
        before = len(made)
        stepped(so_far, clock, second)
        at += [second] * (len(made) - before)
    early_s, later_s = 3 / following.EARLY_SHARE, 3 / following.REPORTS_SHARE
    first = EARLY_S[0]
    assert at == pytest.approx(
        [first, first + early_s, first + 2 * early_s, first + 2 * early_s + later_s], abs=2
    )


def test_no_two_reports_are_made_at_once(tmp_path, monkeypatch):
    may_go_on, begun = threading.Event(), []

    def slow(path):
        begun.append(path)
        may_go_on.wait(30)
        return reports.STARVED

    monkeypatch.setattr(job, "siblings", lambda path: [])
    monkeypatch.setattr(reporting, "judge", slow)
    clock = Clock()
    so_far = ReportsSoFar(tmp_path, clock)
    for second in range(60):
        clock.now_s = 100.0 + second
        so_far.stepped()
    assert len(begun) == 1
    assert so_far.newest is None
    may_go_on.set()


def test_a_report_that_fails_costs_the_view_nothing(tmp_path, monkeypatch):
    answers = iter([reports.STARVED, NotARun("half written"), OSError("gone"), ValueError("ours")])

    def judge(path):
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(job, "siblings", lambda path: [])
    monkeypatch.setattr(reporting, "judge", judge)
    clock = Clock()
    so_far = ReportsSoFar(tmp_path, clock)
    for at_s in (0, *EARLY_S, 1000):
        stepped(so_far, clock, at_s)
    assert next(answers, None) is None
    assert so_far.newest is reports.STARVED


def test_a_run_without_a_step_is_not_judged(tmp_path, made):
    write_job(tmp_path, ranks=1, steps=10, exit_code=None)
    (tmp_path / "node0" / "steps.rank0.bin").unlink()
    run = Following(tmp_path / "node0")
    run._reports._clock = clock = Clock()
    for second in range(60):
        clock.now_s = 100.0 + second
        assert run.look().leading is None
    assert made == []


def test_a_look_is_taken_again_after_a_second_or_what_it_cost(tmp_path):
    write_job(tmp_path, ranks=1, steps=10, exit_code=None)
    run = Following(tmp_path / "node0")
    assert run.pause_s(0.001) == LOOK_S
    for _ in range(50):
        pause_s = run.pause_s(0.050)
    assert pause_s == pytest.approx(0.050 / LOOKS_SHARE, rel=0.01)
    for _ in range(50):
        pause_s = run.pause_s(0.001)
    assert pause_s == LOOK_S


def test_what_is_no_run_is_said_at_once(tmp_path):
    with pytest.raises(NotARun):
        Following(tmp_path)
    with pytest.raises(NoSuchRun):
        Following(tmp_path / "nowhere")


def test_ranks_of_other_nodes_in_the_same_folder_are_found_with_the_first_report(tmp_path):
    write_job(tmp_path, ranks=4, nodes=2, steps=50, exit_code=None)
    run = Following(tmp_path / "node1")
    assert [rank.rank for rank in run.look().ranks] == [2, 3]
    report = run.conclude()
    assert report.job.world == 4
    now = run.look()
    assert [(rank.rank, rank.node) for rank in now.ranks] == [
        (0, "node0"), (1, "node0"), (2, "node1"), (3, "node1")
    ]  # fmt: skip
    shutil.rmtree(tmp_path / "node0")
    assert len(run.look().ranks) == 4

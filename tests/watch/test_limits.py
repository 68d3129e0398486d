from __future__ import annotations

import signal
import subprocess
from types import SimpleNamespace
from unittest import mock

import psutil
import pytest

from perfdoctor.model.measured import Marker
from perfdoctor.watch import limits
from perfdoctor.wire.rows import CONTROL_BYTE, HEADER_BYTES
from tests.support.processes import wait_for


@pytest.fixture
def clock(monkeypatch):
    """Seconds that the module's clock shows, in a list of one."""
    now = [100.0]
    monkeypatch.setattr(limits.time, "monotonic", lambda: now[0])
    return now


def test_a_measurement_that_is_done_leaves_the_script_time_to_end(tmp_path, clock):
    bound = limits.BenchmarkLimit(tmp_path, 10.0)
    assert not bound.is_over()
    (tmp_path / limits.MEASURING).write_text("0 workers\ndone\n")
    assert not bound.is_over()
    clock[0] += limits.LEAVING_S + 1
    assert bound.is_over()


def test_a_measurement_that_hangs_is_over(tmp_path, clock):
    bound = limits.BenchmarkLimit(tmp_path, 10.0)
    clock[0] += 10_000  # however long the script takes to come to its loader
    assert not bound.is_over()
    (tmp_path / limits.MEASURING).write_text("0 workers\n")
    clock[0] += 1
    assert not bound.is_over()
    clock[0] += limits.STUCK * 10 + limits.STUCK_S + 1
    assert bound.is_over()


def test_a_probe_in_trouble_does_not_let_the_script_train(tmp_path, clock):
    bound = limits.BenchmarkLimit(tmp_path, 10.0)
    (tmp_path / "probe.log").write_text("pid 7 start: AttributeError\n")
    assert bound.is_over()


def test_a_sampler_in_trouble_leaves_the_measurement_alone(tmp_path, clock):
    bound = limits.BenchmarkLimit(tmp_path, 10.0)
    (tmp_path / "probe.log").write_text("gpu sampler turned off: NVMLError: 999\n")
    assert not bound.is_over()


def test_the_last_whole_line_says_how_far_a_measurement_is(tmp_path):
    assert limits.progress(tmp_path) is None
    for text, stage in (("", ""), ("0 workers\n", "0 workers"), ("0 workers\n2 work", "0 workers")):
        (tmp_path / limits.MEASURING).write_text(text)
        assert limits.progress(tmp_path) == stage


def test_evaluating_before_training_is_not_training(tmp_path, clock, monkeypatch):
    limit = limits.WatchLimit(tmp_path, 100, None, max_training_s=6.0)
    seen = SimpleNamespace(steps=500, marker=Marker.CALL)
    monkeypatch.setattr(limit, "_follower", SimpleNamespace(look=lambda: seen))
    assert not limit.is_over()
    clock[0] += 20
    assert not limit.is_over()
    clock[0] += limits.EVALUATING_S
    assert limit.is_over()  # a script that only evaluates is measured all the same


def test_training_is_over_after_its_steps_or_its_time(tmp_path, clock, monkeypatch):
    limit = limits.WatchLimit(tmp_path, 100, None, max_training_s=6.0)
    seen = SimpleNamespace(steps=10, marker=Marker.UPDATE)
    monkeypatch.setattr(limit, "_follower", SimpleNamespace(look=lambda: seen))
    assert not limit.is_over()
    clock[0] += 7
    assert limit.is_over()
    assert limit.reached


@pytest.mark.shows("budgets")
def test_a_watch_ends_after_its_seconds_whatever_the_script_does(tmp_path, clock, monkeypatch):
    told = []
    monkeypatch.setattr(limits.directory, "end_watch", lambda run: told.append(run) or 1)
    limit = limits.WatchLimit(tmp_path, None, 30.0)
    clock[0] += 30.0 - limits.POLL_S
    assert not limit.is_over()
    clock[0] += limits.POLL_S
    assert limit.is_over()  # no step was seen, and none is waited for
    assert limit.is_over()
    assert told == [tmp_path]
    assert limit.pause_s == limits.POLL_S  # so it is asked again before long


@pytest.mark.shows("budgets")
def test_training_that_begins_when_the_watch_is_over_is_not_recorded(tmp_path, clock):
    limit = limits.WatchLimit(tmp_path, None, 30.0)
    clock[0] += 31.0
    assert limit.is_over()
    late = tmp_path / "steps.rank0.bin"
    late.write_bytes(bytes(HEADER_BYTES))
    clock[0] += limits.TELL_S + limits.POLL_S
    assert limit.is_over()
    assert late.read_bytes()[CONTROL_BYTE] == 1
    clock[0] += limits.TELL_S + limits.POLL_S
    assert limit.is_over()
    again = tmp_path / "steps.rank0.7.bin"  # started again by its launcher
    again.write_bytes(bytes(HEADER_BYTES))
    clock[0] += limits.TELL_S + limits.POLL_S
    assert limit.is_over()
    assert again.read_bytes()[CONTROL_BYTE] == 0


def test_a_script_that_swallows_every_signal_is_killed_in_time(clock, monkeypatch):
    """What `--stop` takes beyond the seconds asked for."""
    sent = []
    process = mock.Mock()
    process.send_signal.side_effect = lambda number: sent.append((clock[0], number))
    monkeypatch.setattr(limits, "with_descendants", lambda pid: [process])
    ending, begin_s = limits.Termination(7), clock[0]
    for _ in range(300):
        ending.tick()
        clock[0] += limits.POLL_S
    assert [number for _, number in sent] == [signal.SIGINT, signal.SIGTERM, signal.SIGKILL]
    assert sent[-1][0] - begin_s <= 15.0 + 3 * limits.POLL_S


def test_a_watch_that_somebody_else_ends_leaves_the_script_time_to_end(tmp_path, clock):
    called_off = []
    limit = limits.WatchLimit(tmp_path, None, None, grace_s=5.0, called_off=lambda: bool(called_off))
    assert not limit.is_over()
    called_off.append(True)
    assert not limit.is_over()
    assert limit.reached
    clock[0] += 6
    assert limit.is_over()


@pytest.mark.process
def test_ranks_that_outlive_their_shell_are_ended_too(tmp_path, monkeypatch):
    """A shell's background jobs ignore SIGINT, of which the shell dies."""
    monkeypatch.setattr(
        limits, "ENDINGS", ((signal.SIGINT, 0.5), (signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0))
    )
    shell = subprocess.Popen(["sh", "-c", "sleep 60 & sleep 60 & wait"])
    wait_for(lambda: len(psutil.Process(shell.pid).children()) == 2)
    ranks = psutil.Process(shell.pid).children()
    ending = limits.Termination(shell.pid)
    ending.tick()
    assert shell.wait(10) == -signal.SIGINT
    assert all(rank.is_running() for rank in ranks)
    ending.finish()
    _, alive = psutil.wait_procs(ranks, timeout=5)
    assert not alive

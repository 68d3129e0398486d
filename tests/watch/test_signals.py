"""Signals that end a program, where no script runs that they could be passed on to."""

from __future__ import annotations

import os
import signal

import psutil
import pytest

from perfdoctor.watch import signals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_that_ends_a_program_is_raised_and_told(number: int) -> None:
    with pytest.raises(KeyboardInterrupt) as caught, signals.stoppable():
        signal.raise_signal(number)
    assert signals.number_of(caught.value) == number
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_signal_that_is_ignored_or_heard_stays_so() -> None:
    heard: list[int] = []
    before = (
        signal.signal(signal.SIGHUP, signal.SIG_IGN),
        signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number)),
    )
    try:
        with signals.stoppable():
            signal.raise_signal(signal.SIGHUP)
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGHUP, before[0])
        signal.signal(signal.SIGTERM, before[1])
    assert heard == [signal.SIGTERM]


@pytest.mark.process
def test_a_signal_that_comes_while_its_listener_starts_leaves_no_process_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fork = os.fork
    started: list[int] = []

    def interrupted_fork() -> int:
        os.kill(os.getpid(), signal.SIGTERM)  # blocked until the listener is there
        pid = fork()
        if pid:
            started.append(pid)
        return pid

    monkeypatch.setattr(os, "fork", interrupted_fork)
    with signals.stoppable(), signals.SignalForwarding() as forwarding:
        assert forwarding.ended_by == signal.SIGTERM  # it is passed on to the script, and ends no trial
    (listener,) = started
    assert not psutil.pid_exists(listener)

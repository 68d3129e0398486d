"""Signals that end a program, where no script runs that they could be passed on to."""

from __future__ import annotations

import signal

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

from __future__ import annotations

import os
import pty
import termios
import threading

import pytest

from perfdoctor.render.progress.keyboard import Keyboard


@pytest.fixture
def terminal(monkeypatch):
    """Both ends of a terminal that counts as ours in the foreground."""
    controller, slave = pty.openpty()
    monkeypatch.setattr(os, "tcgetpgrp", lambda descriptor: os.getpgrp())
    yield controller, slave
    os.close(controller)
    os.close(slave)


def modes(slave):
    return termios.tcgetattr(slave)


def test_q_leaves_and_other_keys_are_dropped(terminal):
    controller, slave = terminal
    keyboard = Keyboard(slave)
    with keyboard.taken():
        os.write(controller, b"x\t ")
        assert not keyboard.wait(5.0)
        os.write(controller, b"Q")
        assert keyboard.wait(5.0)
        assert not keyboard.wait(0.0)


def test_keys_come_at_once_and_unseen_and_the_terminal_is_put_back(terminal):
    _, slave = terminal
    before = modes(slave)
    keyboard = Keyboard(slave)
    with keyboard.taken():
        assert not modes(slave)[3] & (termios.ECHO | termios.ICANON)
        assert modes(slave)[3] & termios.ISIG  # Ctrl-C still is a signal
    assert modes(slave) == before
    keyboard.give_back()
    assert modes(slave) == before


def test_without_a_terminal_it_waits_for_nothing_but_the_time():
    keyboard = Keyboard(None)
    assert not keyboard
    with keyboard.taken():
        assert not keyboard.wait(0.01)


def test_in_the_background_nothing_is_taken_or_read(terminal, monkeypatch):
    controller, slave = terminal
    monkeypatch.setattr(os, "tcgetpgrp", lambda descriptor: os.getpgrp() + 1)
    before = modes(slave)
    keyboard = Keyboard(slave)
    with keyboard.taken():
        assert modes(slave) == before
        os.write(controller, b"q\n")
        assert not keyboard.wait(0.01)


def test_a_view_that_goes_into_the_background_leaves_the_keys_to_the_foreground(terminal, monkeypatch):
    controller, slave = terminal
    keyboard = Keyboard(slave)
    with keyboard.taken():
        os.write(controller, b"q")
        monkeypatch.setattr(os, "tcgetpgrp", lambda descriptor: os.getpgrp() + 1)
        assert not keyboard.wait(0.01)
        monkeypatch.undo()
        monkeypatch.setattr(os, "tcgetpgrp", lambda descriptor: os.getpgrp())
        assert keyboard.wait(5.0)


def test_a_terminal_that_goes_away_ends_the_view(monkeypatch):
    monkeypatch.setattr(os, "tcgetpgrp", lambda descriptor: os.getpgrp())
    controller, slave = pty.openpty()
    keyboard = Keyboard(slave)
    with keyboard.taken():
        os.close(controller)
        assert keyboard.wait(5.0)
    os.close(slave)


@pytest.mark.parametrize("has_keys", [True, False])
def test_the_end_of_a_run_ends_the_waiting(terminal, has_keys):
    keyboard = Keyboard(terminal[1] if has_keys else None)
    ended = threading.Event()
    with keyboard.taken():
        assert not keyboard.leaves(ended, 0.01)
        ended.set()
        assert keyboard.leaves(ended, 0.01)

from __future__ import annotations

import signal
import threading
import time
from unittest import mock

import pytest

torch = pytest.importorskip("torch")

import torch.optim.optimizer as optimizers

from perfdoctor.probe import patch
from perfdoctor.probe.trial.stop import EarlyExit

WAITS_S = 60  # longer than any test; it is interrupted at once


@pytest.fixture
def ending():
    own = EarlyExit()
    with (
        mock.patch.object(torch, "save"),
        mock.patch.dict(optimizers._global_optimizer_pre_hooks),
        mock.patch.dict(patch.turned_off, clear=True),
    ):
        own.install(torch)
        yield own
        assert not patch.broken()


def an_update():
    weight = torch.nn.Parameter(torch.ones(1))
    weight.grad = torch.ones(1)
    torch.optim.SGD([weight], lr=1.0).step()
    return weight.item()


def left(ending):
    with pytest.raises(SystemExit):
        ending.begin()


def test_nothing_is_ended_before_its_time(ending):
    torch.save({}, "model.pt")
    assert an_update() == 0


def test_the_end_is_an_exit_without_an_error(ending):
    with pytest.raises(SystemExit) as raised:
        ending.begin()
    assert raised.value.code == 0


@pytest.mark.parametrize("go_on", [an_update, lambda: torch.save({}, "model.pt")], ids=["update", "save"])
def test_whoever_goes_on_is_ended_each_time(ending, go_on):
    ending.over = True
    for _ in range(2):
        with pytest.raises(SystemExit):
            go_on()


def test_from_another_thread_the_main_one_is_interrupted_though_it_waits(ending):
    thread = threading.Timer(0.1, left, [ending])
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        time.sleep(WAITS_S)
    thread.join()
    assert ending.over


def test_a_main_thread_that_is_deaf_to_interruptions_is_left_alone(ending):
    was = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        thread = threading.Thread(target=left, args=[ending])
        thread.start()
        thread.join()
    finally:
        signal.signal(signal.SIGINT, was)
    assert ending.over

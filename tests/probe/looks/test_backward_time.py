from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import time

from torch import nn

from perfdoctor.probe.looks.backward_time import nodes_that_made, time_span

PAUSE_S = 0.02


class Slow(torch.autograd.Function):
    @staticmethod
    def forward(context, given):
        return given.clone()

    @staticmethod
    def backward(context, gradient):
        time.sleep(PAUSE_S)
        return gradient


def spans(times=1, given=True):
    """(seconds, operations) of a slow module between two others that are slow as well."""
    before = Slow.apply(nn.Linear(4, 4)(torch.ones(8, 4)))
    inner = nn.Linear(4, 4)(Slow.apply(nn.Linear(4, 4)(before)))
    timer, operations = time_span("test", inner, nodes_that_made([before] if given else []))
    for _ in range(times):
        Slow.apply(inner).sum().backward(retain_graph=True)
    return timer.close() / 1e9, operations


def test_only_what_lies_between_is_timed_and_counted():
    seconds, operations = spans()
    assert PAUSE_S <= seconds < 1.9 * PAUSE_S
    assert operations == 5  # two products, two transposed weights, and what is slow


def test_each_backward_is_added_up():
    seconds, _ = spans(times=2)
    assert 2 * PAUSE_S <= seconds < 2.9 * PAUSE_S


def test_what_made_the_inputs_counts_where_it_is_not_told():
    seconds, operations = spans(given=False)
    assert seconds >= 2 * PAUSE_S
    assert operations == 8


def test_without_a_graph_there_is_nothing_to_time():
    timer, operations = time_span("test", torch.ones(2), set())
    assert (timer.close(), operations) == (0, 0)

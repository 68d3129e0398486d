from __future__ import annotations

import pytest

from perfdoctor.batch import Stage
from perfdoctor.tips.slow_remote_reads import slow_remote_reads as tip
from tests import facts
from tests.facts import cpu, line, loader, step
from tests.loadfacts import batch, cost, network

STARVED = step(data_wait=90, forward=3, backward=7)
LOADER = loader(workers=2, batch=190, cpu=7)


def fetches(share=0.9, text="answer = session.get(url)", **given):
    return batch(cost(Stage.FETCHING, share, line(share, 58, text=text)), ms=190, **given)


def judge(of_step, of_loader, of_batch, of_network, of_cpu=None):
    of_cpu = of_cpu or cpu(cores=4)
    return tip(of_step, of_loader, of_batch, of_network, of_cpu, facts.model(of_step, of_loader, of_cpu))


def test_names_the_line_and_what_the_cpu_does():
    advice = judge(STARVED, LOADER, fetches(), network())
    assert advice is not None
    assert advice.because[1:] == (
        "90% of a batch's 190.0 ms passes in network code",
        "the CPU works for 7.0 ms of it",
        "0.5 MB/s came in from other machines: answers are waited for, not bytes",
    )
    assert [at.line for at in advice.at] == [58]


def test_its_gain_is_no_more_than_the_batches_cost():
    found = facts.gain(judge(STARVED, LOADER, fetches(), network()), facts.model(STARVED, LOADER, cpu()))
    assert 1 < found.low < found.likely < found.high < 10


def test_a_server_on_the_same_machine_counts():
    advice = judge(STARVED, LOADER, fetches(), network(mb=0))
    assert advice is not None
    assert "hardly anything came in" in advice.because[3]


@pytest.mark.parametrize(
    "of_batch",
    [fetches(text="urlopen(f'{base}/{number}')"), fetches(connecting=0.15)],
    ids=["line", "stacks"],
)
def test_says_that_connections_are_opened_again_and_again(of_batch):
    advice = judge(STARVED, LOADER, of_batch, network())
    assert advice is not None
    assert advice.because[-1] == "a connection is opened for each request"


def test_tries_as_many_requests_side_by_side_as_workers_can_make():
    advice = judge(STARVED, LOADER, fetches(), network())
    assert advice is not None
    of = facts.model(STARVED, LOADER, cpu(cores=4))
    assert advice.tweak == f"--workers {of.knee(16, 0.05)}"
    assert of.knee(16, 0.05) > 4  # they wait, and need no core each


@pytest.mark.parametrize(
    "of_loader",
    [
        pytest.param(loader(workers=2, batch=190, cpu=7, iterable=True), id="iterable"),
        pytest.param(loader(workers=31, batch=190, cpu=7), id="enough-workers"),
    ],
)
def test_no_more_workers_where_they_would_not_help(of_loader):
    advice = judge(STARVED, of_loader, fetches(), network())
    assert advice is not None
    assert advice.tweak is None


def test_promises_little_where_the_link_is_full():
    slow, full = (judge(STARVED, LOADER, fetches(), network(mb)) for mb in (1, 115))
    of = facts.model(STARVED, LOADER, cpu())
    assert facts.gain(full, of).likely < facts.gain(slow, of).likely


@pytest.mark.parametrize(
    ("of_step", "of_loader", "of_batch"),
    [
        pytest.param(step(data_wait=1.9, forward=18.1), LOADER, fetches(), id="wait-is-noise"),
        pytest.param(STARVED, LOADER, fetches(0.39), id="fetching-is-a-part"),
        pytest.param(STARVED, loader(workers=2, batch=190, cpu=115), fetches(), id="batches-compute"),
    ],
)
def test_is_silent(of_step, of_loader, of_batch):
    assert judge(of_step, of_loader, of_batch, network()) is None

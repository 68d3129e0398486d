from __future__ import annotations

import pytest

from perfdoctor.model.batch import Stage
from perfdoctor.tips.slow_remote_reads import slow_remote_reads as tip
from tests.support import facts
from tests.support.facts import cpu, line, loader, step
from tests.support.load_facts import batch, cost, network

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
        "90% of a batch's 190.0 ms is spent in network code",
        "only 7.0 ms of it is CPU time",
        "0.5 MB/s received meanwhile from other machines: the wait is for responses (latency), not for bandwidth",
    )
    assert [at.line for at in advice.at] == [58]


def test_its_gain_is_no_more_than_the_batches_cost():
    found = facts.gain(judge(STARVED, LOADER, fetches(), network()), facts.model(STARVED, LOADER, cpu()))
    assert 1 < found.low < found.likely < found.high < 10


def test_a_server_on_the_same_machine_counts():
    for of_network, words in (
        (network(mb=0), "almost nothing received meanwhile from other machines"),
        (network(mb=3, loopback=True), "3 MB/s received meanwhile from this machine"),
    ):
        advice = judge(STARVED, LOADER, fetches(), of_network)
        assert advice is not None
        assert advice.because[3] == f"{words}: the wait is for responses (latency), not for bandwidth"


@pytest.mark.parametrize(
    "of_batch",
    [fetches(text="urlopen(f'{base}/{number}')"), fetches(connecting=0.15)],
    ids=["line", "stacks"],
)
def test_says_that_connections_are_opened_again_and_again(of_batch):
    advice = judge(STARVED, LOADER, of_batch, network())
    assert advice is not None
    assert advice.because[-1] == "a connection is opened for each request"


@pytest.mark.parametrize(
    ("a_second", "words"),
    [
        pytest.param(80, "connections are not kept open: 8 opened per batch", id="each-request"),
        pytest.param(6, "connections are not kept open: 0.6 opened per batch", id="some"),
        pytest.param(4, None, id="kept-open"),
    ],
)
def test_connections_that_were_counted_say_more_than_the_line(a_second, words):
    of_step = step(data_wait=90, forward=10)
    urlopen = fetches(text="urlopen(f'{base}/{number}')", connecting=0.5)
    advice = judge(of_step, LOADER, urlopen, network(opened=a_second))
    assert advice is not None
    assert advice.because[4:] == ((words,) if words else ())
    assert ("per worker" in advice.code) == (words is not None)


def test_says_that_packets_get_lost():
    lossy, sound = (judge(STARVED, LOADER, fetches(), network(resent=share)) for share in (0.023, 0.009))
    assert lossy is not None
    assert sound is not None
    assert lossy.because[-1] == "2.3% of TCP segments were retransmitted: packets get lost"
    assert len(sound.because) == 4


@pytest.mark.parametrize(
    ("mb", "gbit", "words"),
    [
        (
            3.1,
            1,
            "3.1 MB/s received meanwhile, 2% of the 1 Gbit/s link: the wait is for responses (latency), not for bandwidth",
        ),
        (0.25, 0.1, "0.25 MB/s received meanwhile, 2% of the 0.1 Gbit/s link: the wait is for responses"),
        (
            115,
            1,
            "115 MB/s received meanwhile, 92% of the 1 Gbit/s link: it is full; fewer bytes or",
        ),
        (1150, 10, "1150 MB/s received meanwhile, 92% of the 10 Gbit/s link: it is full"),
        (
            60,
            1,
            "60 MB/s received meanwhile, 48% of the 1 Gbit/s link: whether latency or bandwidth limits",
        ),
        (
            115,
            None,
            "115 MB/s received meanwhile from other machines: whether latency or bandwidth limits",
        ),
    ],
)
def test_says_whether_latency_or_bandwidth_limits(mb, gbit, words):
    advice = judge(STARVED, LOADER, fetches(), network(mb, gbit))
    assert advice is not None
    assert advice.because[3].startswith(words)


def test_bytes_that_come_in_now_and_then_fill_the_link_while_they_do():
    seldom = step(data_wait=90, forward=300)
    advice = judge(seldom, loader(batch=100, cpu=7), fetches(), network(25, gbit=1))
    assert advice is not None
    assert advice.because[3].startswith("108 MB/s received meanwhile, 87% of the 1 Gbit/s link: it is full")


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
    slow, half, full = (judge(STARVED, LOADER, fetches(), network(mb, gbit=1)) for mb in (1, 60, 115))
    of = facts.model(STARVED, LOADER, cpu())
    assert facts.gain(full, of).likely < facts.gain(half, of).likely < facts.gain(slow, of).likely
    assert facts.gain(full, of).low == facts.gain(half, of).low < facts.gain(slow, of).low
    assert (full.tweak, full.code) == (None, None)
    assert half.tweak
    assert half.code


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


@pytest.mark.parametrize(
    ("text", "session"),
    [
        ("body = requests.get(url).content", True),
        ("body = s3.get_object(Bucket=b, Key=k)['Body'].read()", False),
    ],
)
def test_a_session_of_requests_is_advised_where_requests_is_used(text, session):
    advice = judge(STARVED, LOADER, fetches(text=text, connecting=0.5), network())
    assert advice is not None
    assert ("requests.Session" in (advice.code or "")) == session
    assert "per worker" in (advice.code or "")

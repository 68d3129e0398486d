from __future__ import annotations

import pytest

from perfdoctor.facts.host.stack_costs import StackCost, StackCosts
from perfdoctor.facts.script.function_caches import small_caches
from perfdoctor.facts.user_source.frames import Frame, Owner
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.measured import Phase
from perfdoctor.model.missing import Missing
from perfdoctor.wire.events.function_caches import FunctionCacheEvent
from tests.support.facts import step
from tests.support.records import source_of

FILE = "/home/me/graphs.py"
STEP = step(data_wait=60, forward=40)  # ms
SOURCES = Sources(source_of(graphs="@lru_cache(maxsize=64)\ndef graph(path):\n    return read(path)"))


def look(hits=200, misses=800, maxsize=64, pid=1, **given):
    at = {"file": FILE, "line": 1, "function": "graph"}
    return FunctionCacheEvent(
        **{"at": at, "maxsize": maxsize, "hits": hits, "misses": misses, "pid": pid, **given}
    )


def cost(seconds, phase=Phase.DATA_WAIT, name="graph", file=FILE, kind=None):
    path = Frame("fit", "/home/me/train.py", 54, Owner.USER), Frame(name, file, 3, Owner.USER)
    return StackCost(phase, path, (), 20, seconds, kind)


BELOW = (cost(0.03),)


def facts(*looks, costs=BELOW):
    found = StackCosts(100, tuple(costs), {}, frozenset())
    return small_caches(list(looks), STEP, found, SOURCES)


def test_what_runs_below_the_function_is_its_share():
    below = cost(0.01), cost(0.02), cost(0.04, name="other"), cost(0.04, file="/home/me/other.py")
    (cache,) = facts(look(), costs=below).caches
    assert (cache.at.line, cache.at.text, cache.maxsize) == (1, "@lru_cache(maxsize=64)", 64)
    assert (cache.calls, cache.misses, cache.samples) == (1000, 800, 40)
    assert (cache.share, cache.of_batch) == (pytest.approx(0.3), pytest.approx(0.5))
    assert cache.bottleneck is Bottleneck.DATA


def test_the_last_look_of_each_process_counts():
    (cache,) = facts(look(20, 180), look(), look(100, 400, pid=2)).caches
    assert (cache.calls, cache.misses) == (1500, 1200)


@pytest.mark.parametrize(("kind", "expected"), [("data", Bottleneck.DATA), (None, Bottleneck.HOST)])
def test_time_between_the_phases_is_charged_by_its_kind(kind, expected):
    (cache,) = facts(look(), costs=(cost(0.03, Phase.OTHER, kind=kind),)).caches
    assert (cache.bottleneck, cache.of_batch) == (expected, 0.0)


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(look(1000, 127), id="filled-only"),
        pytest.param(look(15, 800), id="arguments-that-never-come-again"),
        pytest.param(look(19, 10_000), id="arguments-that-hardly-come-again"),
        pytest.param(look(9000, 800), id="most-are-found"),
        pytest.param(look(at=None), id="no-place"),
    ],
)
def test_a_cache_that_is_large_enough_or_of_no_use_is_none_of_these(event):
    assert facts(event) is None


def test_without_samples_the_reason_is_theirs():
    assert facts(look(), costs=()).caches == ()
    assert small_caches([look()], STEP, Missing("no stacks"), SOURCES) == Missing("no stacks")
    assert small_caches([], STEP, Missing("no stacks"), SOURCES) is None

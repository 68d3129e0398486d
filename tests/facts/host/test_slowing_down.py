from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.host.memory_growth import MemoryGrowth
from perfdoctor.facts.host.slowing_down import Cause, slowing_facts
from perfdoctor.facts.host.stack_costs import StackCosts
from perfdoctor.facts.steps.boundaries import find
from perfdoctor.facts.steps.span import MeasuredSpan
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.measured import LineCost, Location, Phase, StackFacts
from perfdoctor.model.missing import Missing
from tests.support.host_facts import between, growing, retained
from tests.support.load_facts import nested
from tests.support.records import MS, rows, source_of, update

TRAIN = "/home/me/train.py"
SCRIPT = "for x in data:\n    losses.append(step(x))\n    limit = median(losses)\n    print(limit)"
SOURCES = Sources(source_of(train=SCRIPT))
SPAN = MeasuredSpan.of(find(rows([update(10)] * 1000)))  # ten seconds
SAMPLED = range(11)


def line(number, share=0.3):
    return LineCost(Location(TRAIN, number, "main", SOURCES.text(TRAIN, number)), share, 50)


def slowing(growth=None, lines=(), other=(), samples=(), gpus=None, **given):
    """The reason of a growth of 5 ms in phase `other`, where nothing else is given."""
    growth = growth or growing()
    phase = max(growth.phases, key=growth.phases.get)
    stacks = StackFacts(1000, "py-spy", {Phase.OTHER: tuple(other), phase: tuple(lines)})
    needs = {
        "memory": MemoryGrowth(2048.0, None),
        "retained": None,
        "nested": None,
        "between": Missing("no stacks"),
        "costs": StackCosts(1000, (), {}, frozenset({(TRAIN, 2)})),
        "stacks": stacks,
    }
    needs["sources"] = SOURCES
    return slowing_facts(growth, samples=list(samples), devices=gpus or {}, span=SPAN, **needs | given)


def sampled(memory=lambda n: {}, **others):
    """A sample each second."""
    return [
        {"t_ns": (1000 + n * 1000) * MS, "memory": memory(n)}
        | {key: value(n) for key, value in others.items()}
        for n in SAMPLED
    ]


def test_a_costliest_line_in_a_hook_that_nothing_removes_tells_where_it_is_registered():
    script = "def hook(m, i, o):\n    o.std()\nfor epoch in range(9):\n    net.register_forward_hook(hook)"
    sources = Sources(source_of(train=script))
    found = slowing(growing(phase=Phase.FORWARD), lines=[line(2)], sources=sources)
    assert (found.line.at.line, found.hook.line) == (2, 4)
    assert slowing(lines=[line(4), line(3)]).hook is None


def test_one_phase_that_grows_is_named_with_the_line_that_works_on_what_grows():
    found = slowing(lines=[line(4), line(3)])
    assert (found.cause, found.phase, found.phase_share) == (Cause.WORK, Phase.OTHER, 1.0)
    assert (found.line.at.line, found.name, found.adds.line) == (3, "losses", 2)
    assert found.bytes_per_step == 2048.0


def test_lines_that_take_too_little_to_explain_the_growth_do_not_hide_the_costliest():
    few = slowing(lines=[line(4, 0.5), line(3, 0.09)])  # the growth is a fifth of the step
    assert (few.line.at.line, few.name) == (4, None)
    assert slowing(lines=[line(4, 0.5), line(3, 0.11)]).name == "losses"


def test_without_such_a_line_the_costliest_of_the_phase_is_named():
    found = slowing(lines=[line(4)])
    assert (found.line.at.line, found.name, found.adds) == (4, None, None)


def test_what_follows_a_phase_is_looked_for_too():
    found = slowing(growing(phase=Phase.DATA_WAIT), lines=[line(4)], other=[line(3)])
    assert (found.phase, found.line.at.line) == (Phase.DATA_WAIT, 3)


def test_a_function_of_the_loop_is_looked_for_by_the_loops_own_line():
    inner = between(0.3)
    loop = replace(inner.lines[0], at=Location(TRAIN, 3, "main", SOURCES.text(TRAIN, 3)))
    assert slowing(lines=[line(4)], between=replace(inner, lines=(loop,))).name == "losses"


HISTORY = """\
class RunLog:
    def __init__(self):
        self.records = []
    def write(self, loss):
        self.records.append(loss)
        with open("history.json", "w") as f:
            json.dump(self.records, f)
    def save(self, loss):
        np.save("history.npy", self.records)
    def tell(self, loss):
        json.dump(loss, f)
        print(sum(self.records) / 9)
"""


def logged(number, share=0.3, kind="logging"):
    """The loop's line that logs, and a line of the history by which it does."""
    sources = Sources(source_of(train=SCRIPT, runlog=HISTORY))
    inner = sources.at("/home/me/runlog.py", number, "RunLog.write")
    found = slowing(lines=[replace(line(4, share), inner=inner, kind=kind)], sources=sources)
    return found, found.line.at.line


def test_a_log_that_writes_all_of_a_history_anew_is_told_by_the_line_that_writes():
    found, named = logged(7)
    assert (named, found.line.at.file, found.line.kind) == (7, "/home/me/runlog.py", "logging")
    assert (found.name, found.adds.line) == ("self.records", 5)
    assert (found.writes, found.called.line, found.opens.line) == (True, 4, 6)
    assert logged(11)[0].opens is None


def test_a_log_of_which_the_source_does_not_show_what_grows_is_told_by_its_innermost_line_as_well():
    found, named = logged(11)
    assert (named, found.name, found.writes, found.called.line) == (11, None, True, 4)


def test_a_file_is_written_by_what_takes_as_much_as_the_growth_has_to_explain():
    assert logged(9, kind="checkpoint")[0].writes
    assert not logged(7, kind="compute")[0].writes
    assert (logged(12)[0].writes, logged(12)[0].name) == (False, "self.records")  # of which it is a figure
    assert not logged(7, share=0.09)[0].writes  # the growth is a fifth of the step


@pytest.mark.parametrize(
    ("growth", "cause"),
    [
        pytest.param(growing(waiting=0.5, cpu=0.49), Cause.CORES, id="waits-for-cores"),
        pytest.param(growing(waiting=0.5, cpu=None), Cause.CORES, id="waits-for-cores-as-far-as-is-known"),
        pytest.param(growing(waiting=0.5, cpu=0.5), Cause.WORK, id="works-more-where-cores-are-wanted"),
        pytest.param(growing(waiting=None, cpu=None), Cause.WORK, id="clocks-not-read"),
        pytest.param(growing(cpu=0.49), Cause.UNKNOWN, id="waits-for-something"),
        pytest.param(growing(cpu=0.5), Cause.WORK, id="works"),
        pytest.param(replace(growing(), phases={Phase.OTHER: 0.59}), Cause.UNKNOWN, id="several-phases"),
        pytest.param(
            replace(growing(), phases={Phase.FORWARD: 0.6}, first={Phase.FORWARD: 5.0, Phase.BACKWARD: 5.0}),
            Cause.UNKNOWN,
            id="all-alike",
        ),
    ],
)
def test_only_one_phase_that_works_more_is_work(growth, cause):
    assert slowing(growth).cause is cause


def test_items_that_pass_through_more_and_more_wrappers_explain_waits_for_batches():
    waits = growing(phase=Phase.DATA_WAIT)
    assert slowing(waits, nested=nested()).cause is Cause.DATASETS
    assert slowing(waits, nested=nested(0.49)).cause is Cause.WORK  # most of a batch is something else
    assert slowing(nested=nested()).cause is Cause.WORK  # another phase grows


def test_graphs_that_stay_alive_explain_all_that_no_one_else_does():
    assert slowing(retained=retained()).cause is Cause.GRAPHS
    assert slowing(growing(waiting=1.0, cpu=0.0), retained=retained()).cause is Cause.CORES


# The steps grow by 5 ms: half of that is 25 pages a step, 25 000 in the run.
@pytest.mark.parametrize(("pages", "cause"), [(26_000, Cause.SWAPPING), (24_000, Cause.WORK)])
def test_reading_back_from_swap_counts_where_it_takes_the_time(pages, cause):
    read = sampled(lambda n: {"swapped_in_bytes": 10**9 + n * pages * 4096 // 10})
    assert slowing(samples=read).cause is cause


# Steps grow by half: a clock explains it that falls to four fifths.
@pytest.mark.parametrize(("falls_to", "cause"), [(0.79, Cause.CLOCK), (0.82, Cause.WORK)])
def test_a_falling_clock_counts_where_it_explains_the_growth(falls_to, cause):
    settled = 0.8  # of the samples

    def clock(n):
        return 3e9 * (1 - (1 - falls_to) * max(0.0, n / 10 - 0.2) / settled)

    assert slowing(samples=sampled(clock_hz=clock)).cause is cause
    gpu = [{"t_ns": entry["t_ns"], "sm_clock_mhz": clock(n) / 1e6} for n, entry in enumerate(sampled())]
    found = slowing(gpus={0: tuple(gpu)})
    assert found.cause is cause
    assert found.clock_hz == pytest.approx((3e9, 3e9 * falls_to))


def test_no_samples_and_no_stacks_leave_the_line_open():
    found = slowing(stacks=Missing("no stacks"), memory=Missing("no samples"))
    assert (found.cause, found.line, found.bytes_per_step, found.clock_hz) == (Cause.WORK, None, None, None)

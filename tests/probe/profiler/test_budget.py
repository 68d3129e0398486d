import pytest

from perfdoctor.probe.profiler import budget
from perfdoctor.probe.profiler.budget import PLAIN, SHAPES, STACKS, Account, PlannedWindow, WindowPlan


@pytest.mark.parametrize(
    "entry",
    [PlannedWindow(10, 1, 4, PLAIN), PlannedWindow(2**34, 65_535, 1, STACKS), PlannedWindow(0, 0, 1, 0)],
)
def test_an_entry_of_the_plan_is_one_whole_number_and_never_nought(entry):
    packed = entry.pack()
    assert 0 < packed < 2**63
    assert PlannedWindow.unpack(packed) == entry


def test_what_one_rank_writes_into_the_plan_the_others_read(tmp_path):
    one, other = WindowPlan(str(tmp_path)), WindowPlan(str(tmp_path))
    one.numbers[1] = PlannedWindow(24, 1, 4, PLAIN).pack()
    assert PlannedWindow.unpack(other.numbers[1]).step == 24
    assert not any(other.numbers[2:10])


@pytest.mark.shows("windows-of-ranks")
def test_the_lowest_rank_that_has_come_decides(tmp_path):
    plan = WindowPlan(str(tmp_path))
    assert plan.decides(3)
    assert plan.decides(1)
    assert not plan.decides(3)
    assert plan.decides(1)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [({1: 10}, 1), ({1: 10, 2: 10}, 2), ({1: 11, 2: 10}, 2), ({1: 50, 2: 10}, 2), ({1: 10, 2: 50}, 1)],
)
def test_a_step_ends_with_the_optimizer_that_is_updated_least_often(counts, expected):
    assert budget.closer(counts) == expected


def test_small_models_have_few_events_and_short_steps_no_more_than_fit():
    assert budget.likely_events(10.0, modules=10, calls=1) == pytest.approx(900)
    assert budget.likely_events(10.0, modules=10, calls=8) == pytest.approx(5100)
    assert budget.likely_events(0.001, modules=1000, calls=1) == pytest.approx(400)
    assert budget.likely_events(0.5, modules=0, calls=0) == pytest.approx(200_000)


@pytest.mark.shows("cost")
def test_a_window_is_due_when_its_share_of_the_time_pays_for_it():
    account = Account(0.01)
    cost_s = budget.MARGIN * (budget.START_S + 5 * 1000 * budget.EVENT_S)
    assert account.due_ns(PLAIN, 4, 1000, 7) == pytest.approx(7 + cost_s / 0.01 * 1e9)
    assert Account(0.0).due_ns(PLAIN, 4, 1000, 7) == budget.NEVER_NS


def test_what_the_first_window_cost_tells_what_the_next_one_will():
    account = Account(0.01)
    account.add(PLAIN, 5, start_s=0.001, rest_s=0.050, size=5_000)
    assert account.spent_s == pytest.approx(0.051)
    cost_s = 0.051 + budget.MARGIN * (0.001 + 4 * 0.010 * budget.FACTOR[SHAPES])
    assert account.due_ns(SHAPES, 3, 1000, 0) == pytest.approx(cost_s / 0.01 * 1e9)


def test_a_window_without_a_trace_costs_and_teaches_nothing_else():
    account = Account(0.01)
    account.add(PLAIN, 0, start_s=0.001, rest_s=0.002, size=0)
    assert account.spent_s == pytest.approx(0.003)
    assert account.step_costs_s == []


@pytest.mark.shows("huge-trace")
def test_windows_are_short_where_steps_are_large_and_none_where_one_is_too_large():
    account = Account(0.01)
    assert account.steps(PLAIN, 1000) == budget.COUNTED[PLAIN]
    assert account.steps(PLAIN, 250_000) == 2
    assert account.steps(PLAIN, 2_000_000) == 0


@pytest.mark.shows("huge-trace")
def test_a_file_that_would_be_too_large_is_not_asked_for():
    account = Account(0.01)
    account.add(PLAIN, 5, start_s=0.001, rest_s=0.05, size=5 * 100 << 20)
    assert account.steps(SHAPES, 1000) == 0
    assert account.steps(PLAIN, 1000) == 1


def test_no_window_is_longer_than_five_steps_and_stacks_take_two():
    assert max(budget.COUNTED) + 1 == 5
    assert budget.COUNTED[STACKS] + 1 == 2

import pytest

from perfdoctor.probe.profiler import budget
from perfdoctor.probe.profiler.budget import CREDIT, PLAIN, SHAPES, STACKS, Account, PlannedWindow, WindowPlan


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
def test_many_calls_of_functions_have_many_events_however_few_the_modules():
    few = budget.likely_events(0.5, modules=4, calls=1, function_calls=10)
    assert few == budget.likely_events(0.5, modules=4, calls=1)
    many = budget.likely_events(0.5, modules=4, calls=1, function_calls=500)
    assert 5182 < many < 1.6 * 5182  # a loss that goes over 48 samples: counted in a trace
    assert budget.likely_events(0.001, modules=4, calls=1, function_calls=500) == pytest.approx(400)
    assert budget.likely_events(0.5, modules=0, calls=0, function_calls=100) == pytest.approx(1800)


@pytest.mark.shows("cost")
def test_many_nodes_of_the_graph_have_many_events_before_any_step_was_looked_at():
    tiny = budget.likely_events(0.105, modules=7, calls=1, nodes=2715)
    assert 34_886 < tiny < 1.25 * 34_886  # a CRF that loops over tags and time: counted in a trace
    assert budget.likely_events(0.5, modules=24, calls=1, nodes=25) == budget.likely_events(0.5, 24, 1)


@pytest.mark.shows("cost")
def test_a_window_that_a_first_try_cannot_pay_for_is_shorter_and_one_step_waits():
    account = Account(0.01)
    assert account.payable_steps(PLAIN, 1000, elapsed_s=1.0) == budget.COUNTED[PLAIN]
    assert account.payable_steps(PLAIN, 7000, elapsed_s=1.0) == 2
    assert account.payable_steps(PLAIN, 40_000, elapsed_s=1.0) == 1
    assert account.payable_steps(PLAIN, 40_000, elapsed_s=600.0) == budget.COUNTED[PLAIN]
    assert account.due_ns(PLAIN, 1, 40_000, 0) > 30e9
    free = Account(0.01)
    free.crowding = 5.0
    assert free.payable_steps(PLAIN, 1000, elapsed_s=1.0) == budget.COUNTED[PLAIN]
    assert Account(0.0).due_ns(PLAIN, 1, 1000, 0) == budget.NEVER_NS


@pytest.mark.shows("cost")
def test_a_window_of_one_step_has_no_warm_up_to_pay_for():
    account = Account(0.01)
    assert budget.warm_up(PLAIN, 1) == 0
    assert budget.warm_up(PLAIN, 2) == 1
    cost_s = budget.MARGIN * (budget.START_S + 40_000 * budget.EVENT_S)
    assert account.due_ns(PLAIN, 1, 40_000, 0) == pytest.approx(cost_s / 0.01 * 1e9)


@pytest.mark.shows("cost")
def test_a_window_is_due_when_its_share_of_the_time_pays_for_it():
    account = Account(0.01)
    cost_s = budget.MARGIN * (budget.START_S + 5 * 1000 * budget.EVENT_S)
    assert account.due_ns(PLAIN, 4, 1000, 7) == pytest.approx(7 + CREDIT.earliest_s * 1e9)
    thrice = account.due_ns(PLAIN, 4, 15_000, 7)
    assert thrice == pytest.approx(7 + (cost_s + budget.MARGIN * 5 * 14_000 * budget.EVENT_S) / 0.01 * 1e9)
    assert Account(0.0).due_ns(PLAIN, 4, 1000, 7) == budget.NEVER_NS


@pytest.mark.shows("cost")
def test_a_short_run_gets_its_windows_sooner_and_one_of_20_seconds_keeps_the_share():
    assert CREDIT.worth_s(5.0) == pytest.approx(8.75)  # less than 2 % of 5 s, where the share is 1 %
    assert CREDIT.worth_s(20.0) == pytest.approx(20.0)
    for worth in (0.2, 5.5, 8.75, 19.0, 20.0, 300.0):
        reached_s = CREDIT.reached_s(worth)
        assert CREDIT.worth_s(reached_s) >= worth - 1e-9
        assert reached_s <= worth
    assert CREDIT.reached_s(0.2) == 0.2
    assert CREDIT.reached_s(5.1) == CREDIT.earliest_s
    assert CREDIT.reached_s(300.0) == 300.0


@pytest.mark.shows("cost")
def test_a_run_on_a_device_gets_its_first_windows_within_seconds_and_a_long_one_keeps_the_share():
    account = Account(0.01)
    account.begin_on_device()
    credit = account.credit
    assert account.due_ns(PLAIN, 4, 1000, 0) == pytest.approx(credit.earliest_s * 1e9)
    account.add(PLAIN, 5, start_s=0.66, rest_s=0.05, size=1_250_000)  # CUPTI took longest so
    account.start_s = 0.12
    assert account.due_ns(SHAPES, 3, 1000, 0) < 20e9
    account.add(SHAPES, 4, start_s=0.12, rest_s=0.05, size=1_560_000)
    assert account.due_ns(STACKS, 1, 1000, 0) < 60e9
    assert credit.worth_s(300.0) == pytest.approx(300.0)
    assert credit.worth_s(3000.0) == pytest.approx(3000.0)


def test_what_the_first_window_cost_tells_what_the_next_one_will():
    account = Account(0.01)
    account.add(PLAIN, 5, start_s=0.001, rest_s=0.050, size=5_000)
    assert account.spent_s == pytest.approx(0.051)
    cost_s = 0.051 + budget.MARGIN * (0.001 + 4 * 0.010 * budget.FACTOR[SHAPES])
    assert account.due_ns(SHAPES, 3, 1000, 0) == pytest.approx(CREDIT.reached_s(cost_s / 0.01) * 1e9)


def test_a_window_without_a_trace_costs_and_teaches_nothing_else():
    account = Account(0.01)
    account.add(PLAIN, 0, start_s=0.001, rest_s=0.002, size=0)
    assert account.spent_s == pytest.approx(0.003)
    assert account.step_costs_s == []


@pytest.mark.shows("huge-trace")
def test_windows_are_short_where_steps_are_large_and_none_where_one_is_too_large():
    account = Account(0.01)
    assert account.steps(PLAIN, 1000) == budget.COUNTED[PLAIN]
    assert account.steps(PLAIN, 300_000) == 2
    assert account.steps(PLAIN, 2_000_000) == 0


@pytest.mark.shows("huge-trace")
def test_a_file_that_would_be_too_large_is_not_asked_for():
    account = Account(0.01)
    account.add(PLAIN, 5, start_s=0.001, rest_s=0.05, size=5 * 100 << 20)
    assert account.steps(SHAPES, 1000) == 1  # which has no warm-up
    assert account.steps(PLAIN, 1000) == 1
    account.add(PLAIN, 5, start_s=0.001, rest_s=0.05, size=5 * 300 << 20)
    assert account.steps(PLAIN, 1000) == 0


def test_no_window_is_longer_than_five_steps_and_stacks_take_two():
    traced = [counted + warm_up for counted, warm_up in zip(budget.COUNTED, budget.WARM_UP, strict=True)]
    assert max(traced) == 5
    assert traced[STACKS] == 1


@pytest.fixture
def after_two_windows():
    """An account after a window of each kind without stacks, of 1000 events a step at the usual cost each."""
    account = Account(0.01)
    for kind, steps in ((PLAIN, 5), (SHAPES, 4)):
        size = steps * 1000 * budget.EVENT_BYTES[kind]
        account.add(kind, steps, start_s=0.001, rest_s=steps * 1000 * budget.EVENT_S, size=size)
    return account


def paid_s(account):
    """For how many seconds a run must count before a window with stacks is paid for."""
    return CREDIT.worth_s(account.due_ns(STACKS, 1, 1000, 0) / 1e9)


@pytest.mark.shows("cost")
def test_what_a_window_with_stacks_costs_is_foreseen_from_the_calls_of_a_step(after_two_windows):
    account = after_two_windows
    before_s = paid_s(account)
    account.add_count(51_000, limit=100_000)
    later_s = paid_s(account) - before_s
    counted_s = 51_000 * budget.COUNT_S
    assert later_s == pytest.approx((counted_s + budget.MARGIN * 50_000 * budget.EVENT_S) / 0.01)


@pytest.mark.shows("cost")
def test_the_calls_that_may_be_paid_for_are_those_that_make_the_window_due(after_two_windows):
    account = after_two_windows
    account.calls = 40_000
    due_ns = account.due_ns(STACKS, 1, 1000, 7)
    assert account.payable_calls(due_ns, 7, 1000) == pytest.approx(40_000, abs=1)
    assert account.payable_calls(7, 7, 1000) == 0


def test_where_counting_reached_its_limit_twice_as_many_calls_are_tried_next():
    account = Account(0.01)
    assert account.add_count(10_001, limit=10_000) == pytest.approx(10_000 * budget.COUNT_S)
    assert account.calls == 20_000
    account.add_count(90_000, limit=10_000)  # a busy thread beside the loop
    assert account.calls == 90_000
    assert account.spent_s == pytest.approx(20_000 * budget.COUNT_S)


def test_calls_that_could_not_be_counted_teach_nothing_but_may_have_cost():
    account = Account(0.01)
    account.calls = 500
    assert account.add_count(None, limit=1000) == pytest.approx(1000 * budget.COUNT_S)
    assert account.calls == 500


@pytest.mark.shows("cost")
def test_a_slow_machine_pays_more_for_each_call():
    account = Account(0.01)
    account.add(PLAIN, 5, start_s=0.001, rest_s=5 * 1000 * 4e-5, size=5 * 1000 * budget.EVENT_BYTES[PLAIN])
    assert account.event_s == pytest.approx(4e-5)
    quick = Account(0.01)
    quick.add(PLAIN, 5, start_s=0.001, rest_s=1e-3, size=5 * 1000 * budget.EVENT_BYTES[PLAIN])
    assert quick.event_s == budget.EVENT_S


@pytest.mark.shows("cost")
def test_where_others_have_the_cores_too_everything_costs_as_many_times_more(after_two_windows):
    account = after_two_windows
    account.calls = 10_000
    free_s = paid_s(account) - account.spent_s / 0.01
    account.crowding = 3.0
    crowded_ns = account.due_ns(STACKS, 1, 1000, 0)
    assert paid_s(account) - account.spent_s / 0.01 == pytest.approx(3 * free_s)
    assert account.payable_calls(crowded_ns, 0, 1000) == pytest.approx(10_000, abs=1)


def test_a_window_on_crowded_cores_teaches_what_it_would_have_cost_on_free_ones():
    free, crowded = Account(0.01), Account(0.01)
    size = 5 * 1000 * budget.EVENT_BYTES[PLAIN]
    free.add(PLAIN, 5, start_s=0.001, rest_s=0.05, size=size)
    crowded.add(PLAIN, 5, start_s=0.001, rest_s=0.20, size=size, crowding=4.0)
    assert (crowded.step_costs_s, crowded.event_s) == (free.step_costs_s, free.event_s)
    assert crowded.spent_s == pytest.approx(0.201)  # that time is gone all the same


def test_a_step_with_stacks_may_take_twice_as_long_as_usual_or_what_recording_takes():
    assert budget.longest_s(0.1, 1000) == pytest.approx(0.2)
    assert budget.longest_s(0.001, 1_000_000) == pytest.approx(0.001 + 1e6 * budget.RECORD_S)
    assert budget.longest_s(0.001, 10) == pytest.approx(0.001 + budget.RECORD_LEAST_S)

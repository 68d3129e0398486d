import pytest

from perfdoctor.probe import recorder as record
from perfdoctor.probe.recorder import (
    AFTER_BACKWARD,
    AFTER_FORWARD,
    BEFORE_BACKWARD,
    BEFORE_UPDATE,
    FREE,
    SLOTS,
    Recorder,
)
from perfdoctor.wire.rows import HEADER_BYTES
from perfdoctor.wire.step_rows import (
    BACKWARD,
    BACKWARD_DONE,
    CALL,
    CHECKPOINT,
    DATA_WAIT,
    DISTURBED,
    END,
    FORWARD,
    GRAD_SYNC,
    OPEN,
    OPTIMIZER,
    OTHER,
    PHASE_COLUMNS,
    ROLLED_UP,
    STEPS,
    UPDATE,
    VALIDATION,
)

NAMES = [name for name, _ in STEPS.columns]


class Clock:
    """A clock that moves only when told."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


class Rows:
    def __init__(self) -> None:
        self.map = bytearray(HEADER_BYTES)

    def place(self) -> int:
        offset = len(self.map)
        self.map += bytes(STEPS.packer.size)
        return offset

    @property
    def rows(self) -> list[dict[str, float]]:
        packed = STEPS.packer.iter_unpack(self.map[HEADER_BYTES:])
        return [dict(zip(NAMES, values, strict=True)) for values in packed]


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(record, "clock", clock)
    return clock


@pytest.fixture
def recorder(clock):
    return Recorder(Rows())


def spend(clock, recorder, phase, ns, then=None):
    """A phase of `ns`, after which time is undecided if `then` says so."""
    recorder.enter(phase)
    clock.now += ns
    if then is None:
        recorder.leave()
    else:
        recorder.leave_to(then)


def end_step(clock, recorder, marker=UPDATE, optimizer=1):
    recorder.touch()
    recorder.mark(marker, optimizer)


def test_phases_are_exclusive_and_add_up_to_the_row(clock, recorder):
    recorder.enter(OPTIMIZER)
    clock.now += 5
    spend(clock, recorder, FORWARD, 20)
    spend(clock, recorder, BACKWARD, 30)
    clock.now += 7
    recorder.leave()
    clock.now += 3
    end_step(clock, recorder)
    (row,) = recorder.rows.rows
    assert (row["forward"], row["backward"], row["optimizer_ns"]) == (20, 30, 12)
    assert row["end_ns"] - row["begin_ns"] == 65


def test_rows_are_contiguous(clock, recorder):
    for ns in (10, 20, 30):
        clock.now += ns
        end_step(clock, recorder)
    rows = recorder.rows.rows
    assert [row["begin_ns"] for row in rows[1:]] == [row["end_ns"] for row in rows[:-1]]


def test_time_between_forward_and_backward_is_the_loss(clock, recorder):
    spend(clock, recorder, FORWARD, 10, then=AFTER_FORWARD)
    clock.now += 4
    recorder.enter(BACKWARD)
    recorder.decide(FORWARD, FORWARD, FORWARD)
    clock.now += 10
    recorder.leave()
    recorder.mark(UPDATE, 1)
    assert recorder.rows.rows[0]["forward"] == 14


def test_what_follows_a_backward_within_a_forward_is_the_forward(clock, recorder):
    recorder.enter(FORWARD)
    clock.now += 5
    recorder.enter(BACKWARD)
    clock.now += 3
    recorder.leave_to(AFTER_BACKWARD)
    clock.now += 7
    recorder.leave_to(AFTER_FORWARD)
    recorder.mark(UPDATE, 1)
    (row,) = recorder.rows.rows
    assert (row["forward"], row["backward"]) == (12, 3)


def test_time_after_a_forward_without_backward_is_other_work(clock, recorder):
    spend(clock, recorder, FORWARD, 10, then=AFTER_FORWARD)
    clock.now += 4
    recorder.enter(DATA_WAIT)
    recorder.decide(OTHER, OTHER, VALIDATION)
    clock.now += 6
    recorder.leave()
    assert recorder.current == OTHER
    recorder.mark(UPDATE, 1)
    row = recorder.rows.rows[0]
    assert (row["forward"], row["data_wait"]) == (10, 6)
    assert row["end_ns"] - row["begin_ns"] == 20


def test_clipping_between_backward_and_update_belongs_to_the_optimizer(clock, recorder):
    spend(clock, recorder, BACKWARD, 0, then=AFTER_BACKWARD)
    clock.now += 8
    recorder.enter(OPTIMIZER)
    recorder.decide(OTHER, OPTIMIZER, VALIDATION)
    recorder.leave()
    recorder.mark(UPDATE, 1)
    assert recorder.rows.rows[0]["optimizer_ns"] == 8


def test_weaker_markers_close_rows_only_until_a_stronger_one_is_seen(recorder):
    for marker in (OPEN, CALL, BACKWARD_DONE, UPDATE, OPEN, CALL, BACKWARD_DONE, UPDATE, END):
        recorder.mark(marker, 1 if marker == UPDATE else 0)
    assert [row["marker"] for row in recorder.rows.rows] == [OPEN, CALL, BACKWARD_DONE, UPDATE, UPDATE, END]


def test_an_iterator_that_starts_before_the_first_update_is_a_boundary(recorder):
    for marker in (OPEN, BACKWARD_DONE, OPEN, BACKWARD_DONE):
        recorder.mark(marker)
    assert [row["marker"] for row in recorder.rows.rows] == [OPEN, BACKWARD_DONE, OPEN, BACKWARD_DONE]


def test_unwind_closes_what_an_exception_left_open(clock, recorder):
    recorder.enter(FORWARD)
    recorder.enter(DATA_WAIT)
    clock.now += 5
    recorder.unwind(0)
    assert recorder.current == OTHER
    assert recorder.spent[DATA_WAIT] == 5


@pytest.mark.shows("long-and-many")
def test_past_the_bound_a_row_covers_several_updates_and_loses_no_time(clock, recorder, monkeypatch):
    monkeypatch.setattr(record, "RAW_ROWS", 4)
    monkeypatch.setattr(record, "ROWS_PER_MERGE", 2)
    for _ in range(40):
        clock.now += 10
        end_step(clock, recorder)
    end_step(clock, recorder, END, 0)
    rows = recorder.rows.rows
    updates = [row for row in rows if row["marker"] == UPDATE]
    assert len(updates) < 15
    assert sum(row["marks"] for row in rows) == 41
    assert rows[-1]["end_ns"] - rows[0]["begin_ns"] == 400
    assert updates[-1]["flags"] & ROLLED_UP


def test_the_outside_ends_the_watch_through_the_mapped_header(clock, recorder):
    recorder.mark(UPDATE, 1)
    assert not recorder.off
    recorder.rows.map[record.CONTROL_BYTE] = 1
    clock.now += record.ASK_NS
    end_step(clock, recorder)
    assert recorder.off


def test_what_the_outside_asks_for_is_looked_at_no_oftener_than_it_would_be_felt(clock, recorder):
    end_step(clock, recorder)
    recorder.rows.map[record.CONTROL_BYTE] = 1
    clock.now += record.ASK_NS - 1
    end_step(clock, recorder)
    assert not recorder.off
    clock.now += 1
    end_step(clock, recorder)
    assert recorder.off


def test_work_between_two_forwards_is_not_the_loss(clock, recorder):
    for _ in range(2):
        recorder.enter(FORWARD)
        recorder.set_aside(OTHER, OTHER)
        clock.now += 10
        recorder.leave_to(AFTER_FORWARD)
        clock.now += 3
    recorder.enter(BACKWARD)
    recorder.decide(FORWARD, FORWARD, FORWARD)
    recorder.leave()
    recorder.mark(UPDATE, 1)
    row = recorder.rows.rows[0]
    assert row["forward"] == 23
    assert row["end_ns"] - row["begin_ns"] == 26


def test_time_set_apart_has_a_row_of_its_own_and_no_phase(clock, recorder):
    spend(clock, recorder, FORWARD, 20)
    end_step(clock, recorder)
    clock.now += 500
    recorder.set_apart()
    spend(clock, recorder, FORWARD, 30)
    end_step(clock, recorder)
    spend(clock, recorder, FORWARD, 20)
    end_step(clock, recorder)
    before, ours, disturbed, after = recorder.rows.rows
    assert (ours["marker"], ours["end_ns"] - ours["begin_ns"], ours["forward"]) == (OPEN, 500, 0)
    assert [row["flags"] & DISTURBED for row in (before, ours, disturbed, after)] == [0, 2, 2, 0]
    assert (disturbed["begin_ns"], disturbed["forward"]) == (ours["end_ns"], 30)


def test_the_watch_ends_only_when_no_window_is_open(clock, recorder):
    recorder.rows.map[record.CONTROL_BYTE] = 1
    recorder.hold(True)
    end_step(clock, recorder)
    assert not recorder.off
    recorder.hold(False)
    clock.now += record.ASK_NS
    end_step(clock, recorder)
    assert recorder.off


def test_the_cpu_clock_is_read_when_it_is_due(clock, recorder, monkeypatch):
    monkeypatch.setattr(record, "process_clock", iter(range(0, 10**9, 1000)).__next__)
    for _ in range(record.CPU_EVERY + 2):
        end_step(clock, recorder)
    recorder.cpu_due = True
    for _ in range(2):
        end_step(clock, recorder)
    assert [row["process_cpu_ns"] > 0 for row in recorder.rows.rows[-3:]] == [False, True, False]


@pytest.mark.parametrize("phase", range(OTHER))
def test_a_row_holds_the_time_of_each_phase_and_zeros_besides(clock, recorder, phase):
    recorder.written = record.CPU_EVERY + 1  # a row without a reading of the CPU clock
    spend(clock, recorder, phase, 30)
    end_step(clock, recorder)
    (row,) = recorder.rows.rows
    times = {name: row[name] for name in PHASE_COLUMNS}
    assert times == {name: 30 * (number == phase) for number, name in enumerate(PHASE_COLUMNS)}
    assert (row["flags"], row["process_cpu_ns"], row["marks"], row["switches"]) == (0, 0, 1, 1)


def test_updates_are_counted(clock, recorder):
    for _ in range(3):
        for marker in (OPEN, CALL, BACKWARD_DONE, UPDATE):
            recorder.mark(marker, 1 if marker == UPDATE else 0)
    recorder.mark(END)
    assert recorder.updates == 3


def test_time_that_turns_out_to_be_another_phase_is_moved_within_the_row(clock, recorder):
    spend(clock, recorder, BACKWARD, 30)
    recorder.move(BACKWARD, GRAD_SYNC, 12)
    recorder.move(FORWARD, GRAD_SYNC, 5)
    end_step(clock, recorder)
    (row,) = recorder.rows.rows
    assert (row["forward"], row["backward"], row["grad_sync"]) == (0, 18, 12)


def test_a_phase_may_begin_in_place_only_where_none_is_under_way(recorder):
    assert recorder.free
    recorder.enter(DATA_WAIT)
    assert not recorder.free
    recorder.leave_to(AFTER_FORWARD)
    assert recorder.free
    recorder.base = OPTIMIZER
    recorder.rest()
    assert not recorder.free


def test_no_phase_begins_in_place_inside_a_window_or_after_the_watch(recorder):
    recorder.hold(True)
    recorder.enter(FORWARD)
    recorder.leave()
    assert not recorder.free
    recorder.hold(False)
    assert recorder.free
    recorder.end()
    recorder.rest()
    assert not recorder.free


def test_what_was_before_a_border_is_told_for_the_phases_that_follow_one_only():
    """Anything else is a phase under way, around which methods look."""
    may_begin = [OTHER, AFTER_FORWARD, AFTER_BACKWARD]
    for before in (BEFORE_BACKWARD, BEFORE_UPDATE):
        assert len(before) == SLOTS
        assert [phase for phase, is_told in enumerate(before) if is_told is not None] == may_begin
    assert len(FREE) == SLOTS
    assert [phase for phase, is_free in enumerate(FREE) if is_free] == may_begin


def test_each_phase_asks_first_whether_a_window_has_to_end(recorder):
    asked = []
    recorder.on_enter = lambda: asked.append(recorder.current)
    recorder.enter(FORWARD)
    recorder.enter(VALIDATION)
    recorder.on_enter = None
    recorder.enter(CHECKPOINT)
    assert asked == [OTHER, FORWARD]


def test_a_loss_that_comes_late_is_added_to_its_row_which_may_still_be_open(clock, recorder):
    amended = {}
    recorder.rows.amend_loss = amended.__setitem__
    end_step(clock, recorder)
    recorder.amend_loss(0, 1.5)
    assert amended == {0: 1.5}
    recorder.amend_loss(1, 2.0)
    recorder.amend_loss(1, 0.5)
    end_step(clock, recorder)
    assert recorder.rows.rows[1]["loss"] == 2.5
    assert amended == {0: 1.5}

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from perfdoctor.probe.fetch_turns import FetchTurns
from perfdoctor.probe.loader import making
from perfdoctor.probe.loader.making import (
    CHEAP_NS,
    CHEAP_STRIDE,
    CHEAPEST_NS,
    CHEAPEST_STRIDE,
    EACH_ROWS,
    Making,
)


class Rows:
    def __init__(self):
        self.rows = []

    def add(self, *values):
        self.rows.append(values)


@pytest.fixture
def made(monkeypatch):
    making_batches = Making(SimpleNamespace(pid=1, slowed=False), torch.Tensor, FetchTurns())
    making_batches.pid = 1
    making_batches.rows = Rows()
    monkeypatch.setattr(making, "thread_clock", lambda: 0)
    return making_batches


def fetch(made, monkeypatch, ns):
    """A batch that takes so long."""
    monkeypatch.setattr(making, "clock", lambda: ns)
    made.after_fetch((0, 0, 0), (object(),), [torch.ones(4, 2)])


@pytest.mark.parametrize(
    ("ns", "stride"),
    [
        (CHEAPEST_NS - 1, CHEAPEST_STRIDE),
        (CHEAPEST_NS, CHEAP_STRIDE),
        (CHEAP_NS - 1, CHEAP_STRIDE),
        (CHEAP_NS, 1),
    ],
)
def test_the_less_a_batch_costs_the_fewer_are_looked_at(made, monkeypatch, ns, stride):
    made.written = EACH_ROWS
    fetch(made, monkeypatch, ns)
    assert made.stride == stride


def test_what_was_read_is_not_known_where_the_kernel_does_not_tell_and_not_asked_of_cheap_batches(
    made, monkeypatch, tmp_path
):
    io = tmp_path / "io"
    io.write_text("rchar: 12345678\nwchar: 5\n")
    monkeypatch.setattr(making, "READ_CALLS", str(io))
    assert made._file_bytes() == 12345678
    made.stride = CHEAP_STRIDE
    assert made._file_bytes() == 0
    made.stride = 1
    for text in ("", "rchar: many"):
        io.write_text(text)
        assert made._file_bytes() == 0
    io.unlink()
    assert made._file_bytes() == 0


def test_each_of_the_first_batches_is_looked_at(made, monkeypatch):
    fetch(made, monkeypatch, 1)
    assert made.stride == 1


def test_a_batch_stands_for_those_that_were_not_looked_at(made, monkeypatch):
    made.written = EACH_ROWS
    fetch(made, monkeypatch, 1)
    fetch(made, monkeypatch, 1)
    batches, samples = (made.rows.rows[-1][place] for place in (5, 6))
    assert (batches, samples) == (CHEAPEST_STRIDE, 4 * CHEAPEST_STRIDE)


def test_time_in_which_the_thread_lost_its_core_while_its_clock_was_asked_is_no_cost_of_the_batch(
    made, monkeypatch
):
    now = [0]

    def asked():
        now[0] += 20_000_000
        return 0

    monkeypatch.setattr(making, "clock", lambda: now[0])
    monkeypatch.setattr(making, "thread_clock", asked)
    made.fetches.count = made.next()
    token = made.before_fetch((), {})
    now[0] += 3_000_000  # reading
    made.before_collate((), {})
    now[0] += 1_000_000
    made.after_collate(True, (), None)
    made.after_fetch(token, (object(),), [torch.ones(4, 2)])
    (row,) = made.rows.rows
    read, collate = row[7], row[9]
    assert (read, collate) == (3_000_000, 1_000_000)

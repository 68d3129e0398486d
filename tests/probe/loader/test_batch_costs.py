from __future__ import annotations

import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

from perfdoctor.probe.loader import batch_costs
from perfdoctor.probe.loader.batch_costs import Caught, Dry

pytestmark = pytest.mark.process


@pytest.fixture
def ticking(monkeypatch):
    """A clock that goes on by a second whenever it is looked at."""
    seconds = iter(range(1000))
    monkeypatch.setattr(batch_costs, "clock", lambda: float(next(seconds)))


def batches(count):
    left = iter([[torch.zeros(3, 5)]] * count)

    def take():
        batch = next(left, None)
        if batch is None:
            raise Dry
        return batch

    return take


def test_a_stretch_takes_whole_rounds_until_its_time_is_over(ticking):
    found = batch_costs.stretch(batches(99), 2, [], 5.0, lambda: False)
    assert found is not None
    assert found.batches == 2 * found.seconds
    assert found.seconds >= 5.0
    assert (found.samples, found.bytes) == (3, 60)
    assert found.block_batches * len(found.block_s) == found.batches


def test_long_rounds_end_a_stretch_at_twice_its_time(ticking):
    found = batch_costs.stretch(batches(99), 1, [], 0.4, lambda: False)
    assert found is not None
    assert found.batches == 1


def test_a_round_that_ends_too_late_is_not_counted(ticking):
    answers = iter([False, True])
    found = batch_costs.stretch(batches(99), 3, [], 9.0, lambda: next(answers))
    assert found is not None
    assert found.batches == 3
    assert batch_costs.stretch(batches(99), 3, [], 9.0, lambda: True) is None


def test_what_came_before_the_data_ended_counts(ticking):
    found = batch_costs.stretch(batches(5), 2, [], 9.0, lambda: False)
    assert found is not None
    assert found.batches == 4


def test_the_programs_end_is_not_kept_from_it():
    with pytest.raises(KeyboardInterrupt), Caught():
        raise KeyboardInterrupt
    with Caught() as trouble:
        raise ValueError("bad")
    assert isinstance(trouble.error, ValueError)


def test_collating_is_timed_apart_and_one_batchs_samples_are_kept():
    class Fetcher:
        collate_fn = staticmethod(sum)

    costs, fetcher = batch_costs.Costs(), Fetcher()
    costs.watch(fetcher)
    assert fetcher.collate_fn([1, 2]) == 3
    assert fetcher.collate_fn([5, 6]) == 11
    assert costs.held == [1, 2]
    assert costs.collate_costs()["collate_s"] > 0
    costs.reset()
    assert costs.collate_costs()["collate_s"] == 0


def test_batches_are_the_same_if_all_their_tensors_are():
    one, other = {"x": torch.ones(2), "y": [torch.zeros(1)]}, {"x": torch.ones(2), "y": [torch.ones(1)]}
    assert batch_costs.same(torch, one, one)
    assert not batch_costs.same(torch, one, other)
    assert not batch_costs.same(torch, ["text"], ["text"])


@pytest.mark.skipif(not os.path.exists("/proc/self/smaps_rollup"), reason="the kernel does not tell")
def test_private_memory_is_what_a_process_holds_alone():
    code = "import sys; held = bytearray(b'x' * 30_000_000); print(flush=True); sys.stdin.read()"
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    size = batch_costs.private_bytes(child.pid)
    child.communicate()
    assert size is not None
    assert 30e6 < size < 60e6
    assert batch_costs.private_bytes(child.pid) is None


def test_an_error_is_one_line_and_the_innermost_line_of_the_user():
    error = ValueError("two\nlines")
    assert batch_costs.described(error) == {"error": "ValueError: two", "at": None}
    text = (
        "Caught KeyError in DataLoader worker process 0.\nOriginal Traceback (most recent call last):\n"
        '  File "/home/ada/data.py", line 7, in __getitem__\n    self.labels[i]\n'
        f'  File "{os.__file__}", line 9, in get\n    x\nKeyError: 3'
    )
    told = batch_costs.described(RuntimeError(text))
    assert told == {"error": "KeyError: 3", "at": {"file": "/home/ada/data.py", "line": 7}}

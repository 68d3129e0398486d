from __future__ import annotations

import pytest

from perfdoctor import limits


@pytest.fixture
def clock(monkeypatch):
    """Seconds that the module's clock shows, in a list of one."""
    now = [100.0]
    monkeypatch.setattr(limits.time, "monotonic", lambda: now[0])
    return now


def test_a_measurement_that_is_done_leaves_the_script_time_to_end(tmp_path, clock):
    bound = limits.Measuring(tmp_path, 10.0)
    assert not bound.is_over()
    (tmp_path / limits.MEASURING).write_text("0 workers\ndone\n")
    assert not bound.is_over()
    clock[0] += limits.LEAVING_S + 1
    assert bound.is_over()


def test_a_measurement_that_hangs_is_over(tmp_path, clock):
    bound = limits.Measuring(tmp_path, 10.0)
    clock[0] += 10_000  # however long the script takes to come to its loader
    assert not bound.is_over()
    (tmp_path / limits.MEASURING).write_text("0 workers\n")
    clock[0] += 1
    assert not bound.is_over()
    clock[0] += limits.STUCK * 10 + limits.STUCK_S + 1
    assert bound.is_over()


def test_a_probe_in_trouble_does_not_let_the_script_train(tmp_path, clock):
    bound = limits.Measuring(tmp_path, 10.0)
    (tmp_path / "probe.log").write_text("pid 7 start: AttributeError\n")
    assert bound.is_over()


def test_the_last_whole_line_says_how_far_a_measurement_is(tmp_path):
    assert limits.progress(tmp_path) is None
    for text, stage in (("", ""), ("0 workers\n", "0 workers"), ("0 workers\n2 work", "0 workers")):
        (tmp_path / limits.MEASURING).write_text(text)
        assert limits.progress(tmp_path) == stage

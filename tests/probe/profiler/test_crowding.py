import pytest

from perfdoctor.probe.profiler import crowding
from perfdoctor.probe.profiler.crowding import CoreTime, core_time

MS = 1_000_000


@pytest.mark.parametrize(
    ("running_ms", "waiting_ms", "factor"),
    [(100, 0, 1.0), (100, 100, 2.0), (100, 430, 5.3), (100, 100_000, crowding.MOST), (1, 50, 1.0)],
)
def test_what_waits_for_a_core_takes_as_many_times_longer(running_ms, waiting_ms, factor):
    since = CoreTime(7 * MS, 9 * MS)
    now = CoreTime((7 + running_ms) * MS, (9 + waiting_ms) * MS)
    assert crowding.crowding(since, now) == pytest.approx(factor)


def test_a_thread_that_computes_is_seen_to():
    before = core_time()
    sum(range(3_000_000))
    after = core_time()
    assert after.running_ns > before.running_ns
    assert after.waiting_ns >= before.waiting_ns


@pytest.mark.parametrize("text", [b"", b"words 3 4", b"12"])
def test_without_an_account_nothing_is_known_and_the_cores_count_as_free(text, monkeypatch, tmp_path):
    (tmp_path / "schedstat").write_bytes(text)
    real = open
    monkeypatch.setattr("builtins.open", lambda path, mode: real(tmp_path / "schedstat", mode))
    assert core_time() == CoreTime(0, 0)
    monkeypatch.setattr("builtins.open", lambda path, mode: real(tmp_path / "nowhere", mode))
    assert core_time() == CoreTime(0, 0)
    assert crowding.crowding(core_time(), core_time()) == 1.0

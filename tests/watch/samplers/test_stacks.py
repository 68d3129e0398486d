"""Stack sampling from outside: what is kept of it, and what happens where it is refused."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from perfdoctor.runs.raw import Stack, read_stacks
from perfdoctor.watch.samplers import pyspy, stacks
from perfdoctor.watch.samplers.processes import ProcessTree, RunProcess
from perfdoctor.watch.samplers.pyspy import Recording, RecordingEnd, SampledStack, parse
from perfdoctor.watch.samplers.stacks import (
    UNDECLARED_AFTER_S,
    FoldedStacks,
    StackSampler,
    from_worker_loop,
    training_thread,
)
from perfdoctor.wire.rows import SAMPLE_BYTE
from tests.support.processes import BUSY, FORKING, python, steps_file, wait_for

pytestmark = pytest.mark.process

needs_pyspy = pytest.mark.skipif(pyspy.executable() is None, reason="py-spy is not installed")
LOOP = "_worker_loop (/torch/utils/data/_utils/worker.py:374)"


def read(run: Path, rank: int = 0) -> tuple[Stack, ...]:
    return read_stacks(run / f"stacks.rank{rank}.txt", [])[1]


# ---------------------------------------------------------------- parsing and folding


def test_raw_output_is_parsed_with_ids_names_and_short_functions() -> None:
    text = (
        "thread (12): MainThread;<module> (/a b/t.py:9);main.<locals>.step (/a b/t.py:3) 7\n"
        "thread (0x1F);f (x:1) 2\n"
        "something else 3\n"
        "thread (12): MainThread 4\n"
        "thread (12): MainThread;f (x:1) many\n"
    )
    assert list(parse(text)) == [
        SampledStack(12, "MainThread", ("<module> (/a b/t.py:9)", "step (/a b/t.py:3)"), 7),
        SampledStack(31, "", ("f (x:1)",), 2),
    ]


def test_a_workers_stack_begins_at_the_worker_loop() -> None:
    inherited = ("<module> (train.py:1)", "__iter__ (dataloader.py:2)", LOOP, "fetch (f.py:1)")
    assert from_worker_loop(inherited) == (LOOP, "fetch (f.py:1)")
    assert from_worker_loop(("spawn_main (spawn.py:1)",)) == ("spawn_main (spawn.py:1)",)


def test_the_training_thread_is_the_one_that_the_probe_was_seen_in() -> None:
    wrapped = "forward (/site/perfdoctor/probe/patch.py:105)"
    first = SampledStack(1, "MainThread", ("wait (gui.py:1)",), 50)
    trainer = SampledStack(2, "Thread-1", ("run (t.py:1)", wrapped), 40)
    assert training_thread(1, [first]) == 1
    assert training_thread(1, [first, trainer]) == 2
    assert (
        training_thread(1, [first, trainer, SampledStack(1, "MainThread", ("<module> (t.py:9)", wrapped), 1)])
        == 1
    )


def test_a_usual_call_and_threads_of_the_probe_tell_apart_who_trains() -> None:
    usual = "module_call (/site/perfdoctor/probe/steps/modules.py:104)"
    trainer = SampledStack(1, "MainThread", ("<module> (t.py:9)", usual, "forward (net.py:3)"), 1)
    own = (
        "call (/site/perfdoctor/probe/patch.py:89)",
        "_wait (/site/perfdoctor/probe/profiler/time_limit.py:41)",
    )
    assert training_thread(1, [trainer, SampledStack(3, "", own, 40)]) == 1
    assert (
        training_thread(
            1, [SampledStack(1, "MainThread", ("<module> (t.py:9)",), 5), SampledStack(3, "", own, 40)]
        )
        == 1
    )


def test_counts_of_chunks_add_up_in_one_line_a_stack(tmp_path: Path) -> None:
    path = tmp_path / "stacks.rank0.txt"
    counted = FoldedStacks(path, rate_hz=20)
    for _ in range(3):
        counted.add_main(
            1, [SampledStack(1, "MainThread", ("f (x:1)",), 2), SampledStack(9, "pin", ("g (x:2)",), 1)], 20
        )
        counted.add_worker(
            5, [SampledStack(5, "MainThread", ("a (b:1)", LOOP), 4), SampledStack(6, "feed", ("h (x:3)",), 1)]
        )
        counted.write()
    assert path.read_text().splitlines() == [
        "# source=py-spy rate_hz=20 idle=1 ends=1",
        "main;f (x:1) 6",
        "thread pin;g (x:2) 3",
        f"worker 5;{LOOP} 12",
        "worker 5 thread feed;h (x:3) 3",
        "# end",
    ]
    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_workers_that_restart_each_epoch_do_not_make_names_without_end(tmp_path: Path) -> None:
    counted = FoldedStacks(tmp_path / "stacks.rank0.txt", rate_hz=20)
    for pid in range(1, 201):
        counted.add_worker(pid, [SampledStack(pid, "MainThread", (LOOP,), 1)])
    counted.write()
    found = dict(read(tmp_path))
    assert len(found) == stacks.MOST_WORKER_NAMES + 1
    assert found["worker *", LOOP] == 200 - stacks.MOST_WORKER_NAMES


def test_late_chunks_of_a_lower_rate_weigh_as_much_as_the_first_ones(tmp_path):
    counted = FoldedStacks(tmp_path / "stacks.rank0.txt", rate_hz=20)
    counted.add_main(1, [SampledStack(1, "MainThread", ("early (x:1)",), 200)], 20)  # 10 s each
    counted.add_main(1, [SampledStack(1, "MainThread", ("late (x:2)",), 50)], 5)
    counted.write()
    assert [count for _, count in read(tmp_path)] == [200, 200]


def test_a_chunk_of_a_rate_that_does_not_divide_the_files_weighs_what_its_time_does(tmp_path):
    counted = FoldedStacks(tmp_path / "stacks.rank0.txt", rate_hz=20)
    counted.add_main(1, [SampledStack(1, "MainThread", ("once (x:1)",), 150)], 15)  # 10 s
    for _ in range(150):
        counted.add_main(1, [SampledStack(1, "MainThread", ("often (x:2)",), 1)], 15)
    counted.write()
    assert [count for _, count in read(tmp_path)] == [200, 200]


def test_rare_stacks_are_added_up_when_there_are_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stacks, "LARGEST_BYTES", 2000)
    counted = FoldedStacks(tmp_path / "stacks.rank0.txt", rate_hz=20)
    counted.add_main(1, [SampledStack(1, "MainThread", (f"f{k} (x:{k})",), k + 1) for k in range(500)], 20)
    counted.write()
    found = dict(read(tmp_path))
    assert sum(found.values()) == sum(range(1, 501))
    assert found["main", "f499 (x:499)"] == 500
    assert found["main", stacks.RARE] > 0
    assert (tmp_path / "stacks.rank0.txt").stat().st_size < 2500


# ---------------------------------------------------------------- supervision


class Scripted:
    """Stands in for a recording; it runs until told that it has ended."""

    def __init__(self, pid: int, rate_hz: int, seconds: float) -> None:
        self.pid, self.rate_hz, self.seconds = pid, rate_hz, seconds
        self.ended = False
        self.result = RecordingEnd((SampledStack(pid, "MainThread", ("f (x:1)",), 1),), None)

    def running(self) -> bool:
        return not self.ended

    def cpu_s(self) -> float:
        return 0.25

    def interrupt(self) -> None:
        self.ended = True

    def outcome(self) -> RecordingEnd:
        return self.result


class Bench:
    """A stack sampler over scripted recordings of this process as the training process."""

    def __init__(self, run: Path) -> None:
        self.started: list[Scripted] = []
        self.log: list[str] = []
        self.run = run
        self.main = RunProcess(psutil.Process(), "main", "rank0")
        self.sampler = StackSampler(run, self._start, self.log.append)  # type: ignore[arg-type]

    def _start(self, pid: int, rate_hz: int, seconds: float) -> Scripted:
        self.started.append(Scripted(pid, rate_hz, seconds))
        return self.started[-1]

    def worker(self, pid: int) -> RunProcess:
        process = psutil.Process()
        process._pid = pid
        return RunProcess(process, "worker", "rank0")


def asked_for_samples(run: Path) -> bool:
    with open(run / "steps.rank0.bin", "rb") as file:
        file.seek(SAMPLE_BYTE)
        return file.read(1) == b"\x01"


def test_nothing_is_sampled_before_the_first_row(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    steps_file(tmp_path, os.getpid(), rows=b"")
    bench.sampler.tick(0.0, [bench.main])
    assert bench.started == []
    steps_file(tmp_path, os.getpid())
    bench.sampler.tick(1.0, [bench.main])
    assert [recording.pid for recording in bench.started] == [os.getpid()]


def test_a_second_process_of_the_same_rank_has_its_own_files(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    path = steps_file(tmp_path, os.getpid())
    path.rename(tmp_path / "steps.rank0.77.bin")
    bench.sampler.tick(0.0, [RunProcess(psutil.Process(), "main", "rank0.77")])
    bench.sampler.stop()
    assert (tmp_path / "stacks.rank0.77.txt").is_file()


def test_one_chunk_follows_the_other_and_later_ones_are_longer_and_slower(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    steps_file(tmp_path, os.getpid())
    for now in (0.0, 11.0, 42.0, 1000.0, 1061.0):
        bench.sampler.tick(now, [bench.main])
        bench.started[-1].ended = True
    assert [recording.seconds for recording in bench.started] == [10.0, 30.0, 30.0, 60.0, 60.0]
    assert bench.started[-1].rate_hz <= stacks.LATE_HZ < bench.started[0].rate_hz
    weight = bench.started[0].rate_hz / bench.started[-1].rate_hz
    bench.sampler.stop()
    assert read(tmp_path) == ((("main", "f (x:1)"), round(3 + 2 * weight)),)


def test_no_chunk_is_taken_at_a_higher_rate_than_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path)
    steps_file(tmp_path, os.getpid())
    for now, threads in ((0.0, 120), (11.0, 30)):  # a team of threads has ended in between
        monkeypatch.setattr(psutil.Process, "num_threads", lambda process, threads=threads: threads)
        bench.sampler.tick(now, [bench.main])
        bench.started[-1].ended = True
    assert [recording.rate_hz for recording in bench.started] == [5, 5]


def test_stopping_keeps_what_the_running_chunks_have(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    steps_file(tmp_path, os.getpid())
    bench.sampler.tick(0.0, [bench.main, replace(bench.worker(7), declared=True)])
    bench.sampler.stop()
    assert {frames[0] for frames, _ in read(tmp_path)} == {"main", "worker 7"}
    assert bench.sampler.cpu_s() == 0.5


def test_what_only_looks_like_a_worker_takes_a_turn_where_none_makes_itself_known(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    steps_file(tmp_path, os.getpid())
    for now_s in (0.0, UNDECLARED_AFTER_S):
        bench.sampler.tick(now_s, [bench.main, bench.worker(7)])
        assert (7 in [recording.pid for recording in bench.started]) == (now_s > 0)


def test_what_only_looks_like_a_worker_takes_no_turn_beside_real_ones(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    steps_file(tmp_path, os.getpid())
    forked = bench.worker(7)
    bench.sampler.tick(0.0, [bench.main, forked, replace(bench.worker(9), declared=True)])
    assert [recording.pid for recording in bench.started] == [os.getpid(), 9]


FETCHING = (LOOP, "_MapDatasetFetcher.fetch (/torch/utils/data/_utils/fetch.py:54)", "read (t.py:3)")


def rounds(bench: Bench, members: list[RunProcess], count: int, samples: int = 0) -> list[list[Scripted]]:
    """The recordings of workers that start one after the other; each worker is seen preparing this often."""
    found = []
    for round_number in range(count):
        known = len(bench.started)
        bench.sampler.tick(4.0 * round_number, members)
        found.append([one for one in bench.started[known:] if one.pid != os.getpid()])
        for recording in found[-1]:
            recording.ended = True
            if samples:
                stacks_seen = (SampledStack(recording.pid, "MainThread", FETCHING, samples),)
                recording.result = RecordingEnd(stacks_seen, None)
        bench.sampler.tick(4.0 * round_number + 1.0, [])
    return found


def test_workers_take_turns(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    steps_file(tmp_path, os.getpid())
    declared = [replace(bench.worker(pid), declared=True) for pid in (9, 8, 7, 6, 5)]
    found = rounds(bench, [bench.main, *declared], 4, samples=stacks.ENOUGH_PREPARING)
    assert [[one.pid for one in each] for each in found] == [[5, 6, 7, 8], [9], [5], [6]]


def test_several_workers_are_sampled_until_enough_of_batch_preparation_was_seen(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    steps_file(tmp_path, os.getpid())
    declared = [replace(bench.worker(pid), declared=True) for pid in range(1, 11)]
    found = rounds(bench, [bench.main, *declared], 3, samples=stacks.ENOUGH_PREPARING // 8 + 1)
    assert [[one.pid for one in each] for each in found] == [[1, 2, 3, 4], [5, 6, 7, 8], [9]]
    assert [each[0].rate_hz for each in found] == [stacks.FIRST_WORKER_HZ] * 2 + [stacks.WORKER_HZ]


def test_workers_that_prepare_much_are_sampled_one_at_a_time_from_the_second_time_on(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    steps_file(tmp_path, os.getpid())
    declared = [replace(bench.worker(pid), declared=True) for pid in range(1, 11)]
    found = rounds(bench, [bench.main, *declared], 2, samples=stacks.ENOUGH_PREPARING)
    assert [len(each) for each in found] == [4, 1]


@pytest.mark.parametrize(("samples", "then"), [(stacks.ENOUGH_IDLE // 4, 1), (2, 4)])
def test_workers_that_idle_are_sampled_one_at_a_time_but_not_for_few_samples(
    tmp_path: Path, samples: int, then: int
) -> None:
    bench = Bench(tmp_path)
    steps_file(tmp_path, os.getpid())
    declared = [replace(bench.worker(pid), declared=True) for pid in range(1, 11)]
    bench.sampler.tick(0.0, [bench.main, *declared])
    for one in bench.started[1:]:
        one.ended, one.result = True, RecordingEnd((SampledStack(one.pid, "", (LOOP,), samples),), None)
    bench.sampler.tick(3.0, [bench.main])
    known = len(bench.started)
    bench.sampler.tick(5.0, [bench.main, *declared])
    assert len(bench.started) - known == then


def test_workers_that_end_before_they_are_seen_leave_the_others_their_turn(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    steps_file(tmp_path, os.getpid())
    declared = [replace(bench.worker(pid), declared=True) for pid in range(1, 11)]
    bench.sampler.tick(0.0, [bench.main, *declared])
    for recording in bench.started[1:]:
        recording.ended, recording.result = True, RecordingEnd((), "py-spy ended with 1: no such process")
    bench.sampler.tick(1.0, [bench.main, *declared])
    assert [recording.pid for recording in bench.started[1:]] == list(range(1, 9))


def test_several_workers_are_sampled_only_in_the_first_seconds(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    steps_file(tmp_path, os.getpid())
    declared = [replace(bench.worker(pid), declared=True) for pid in range(1, 11)]
    bench.sampler.tick(0.0, [bench.main])
    bench.sampler.tick(stacks.FIRST_WORKERS_FOR_S, [bench.main, *declared])
    assert [recording.pid for recording in bench.started[1:]] == [1]


@pytest.mark.shows("no-stacks")
def test_a_second_refusal_in_a_row_asks_for_samples_from_within(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    steps_file(tmp_path, os.getpid())
    bench.sampler.tick(0.0, [bench.main])
    for now in (1.0, 2.0):
        assert not asked_for_samples(tmp_path)
        for recording in bench.started:
            recording.result = RecordingEnd((), "py-spy ended with 1: Permission Denied")
            recording.ended = True
        bench.sampler.tick(now, [bench.main])
    assert asked_for_samples(tmp_path)
    assert len(bench.log) == 1
    assert "Permission Denied" in bench.log[0]
    count = len(bench.started)
    bench.sampler.tick(50.0, [bench.main])
    assert len(bench.started) == count


def test_once_the_probe_samples_the_file_is_its_own(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    steps_file(tmp_path, os.getpid())
    bench.sampler.tick(0.0, [bench.main, bench.worker(7)])
    for now in (1.0, 2.0):
        for recording in bench.started:
            if recording.pid == os.getpid():
                recording.result = RecordingEnd((), "py-spy ended with 1: Permission Denied")
                recording.ended = True
        bench.sampler.tick(now, [bench.main, bench.worker(7)])
    path = tmp_path / "stacks.rank0.txt"
    path.write_text("# source=in-process\nmain;f (x:1) 3\n")
    bench.sampler.stop()
    assert path.read_text() == "# source=in-process\nmain;f (x:1) 3\n"


def test_one_bad_moment_is_not_a_refusal(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    steps_file(tmp_path, os.getpid())
    bench.sampler.tick(0.0, [bench.main])
    for now in range(1, 9):
        if now % 2:
            bench.started[-1].result = RecordingEnd((), "py-spy ended with 1: torn")
        bench.started[-1].ended = True
        bench.sampler.tick(float(now), [bench.main])
    assert not asked_for_samples(tmp_path)


@pytest.mark.shows("no-stacks")
def test_without_pyspy_samples_are_asked_for_from_within(tmp_path: Path) -> None:
    steps_file(tmp_path, os.getpid())
    log: list[str] = []
    StackSampler(tmp_path, None, log.append).tick(0.0, [RunProcess(psutil.Process(), "main", "rank0")])
    assert asked_for_samples(tmp_path)
    assert log == [
        "stacks cannot be sampled from outside, so the process samples its own: py-spy is not installed"
    ]


# ---------------------------------------------------------------- with the real py-spy


def real_start(pid: int, rate_hz: int, seconds: float) -> Recording:
    return Recording(pyspy.executable() or "", pid, rate_hz, seconds)


def sampled(run: Path, pid: int, ready: Callable[[StackSampler], bool]) -> list[str]:
    """Run the sampler on `pid` until `ready`, then stop it; what it logged."""
    log: list[str] = []
    tree = ProcessTree(run, pid)
    sampler = StackSampler(run, real_start, log.append)
    end = time.monotonic() + 30
    while not ready(sampler):
        assert time.monotonic() < end
        now = time.monotonic()
        sampler.tick(now, tree.look(now))
        time.sleep(0.2)
    sampler.stop()
    return log


@needs_pyspy
def test_the_line_of_a_busy_process_is_found(tmp_path: Path) -> None:
    with python(tmp_path, BUSY) as target:
        steps_file(tmp_path, target.pid)
        began = time.monotonic()
        log = sampled(tmp_path, target.pid, lambda _: time.monotonic() > began + 3)
        assert psutil.Process(target.pid).status() != psutil.STATUS_STOPPED
    assert log == []
    found = {frames: count for frames, count in read(tmp_path) if frames[0] == "main"}
    inside = sum(count for frames, count in found.items() if f"compute ({tmp_path}/target.py:5)" in frames)
    assert inside > 0.9 * sum(found.values()) > 0


@needs_pyspy
def test_forked_workers_are_sampled_too(tmp_path: Path) -> None:
    with python(tmp_path, FORKING.format(method="fork")) as target:
        steps_file(tmp_path, target.pid)
        began = time.monotonic()
        sampled(tmp_path, target.pid, lambda _: time.monotonic() > began + 6)
    workers = [frames for frames, _ in read(tmp_path) if frames[0].startswith("worker ")]
    assert any(f"work ({tmp_path}/target.py:5)" in frames for frames in workers)


@needs_pyspy
def test_a_target_that_is_killed_leaves_its_stacks(tmp_path: Path) -> None:
    with python(tmp_path, BUSY) as target:
        steps_file(tmp_path, target.pid)
        tree = ProcessTree(tmp_path, target.pid)
        sampler = StackSampler(tmp_path, real_start, [].append)
        sampler.tick(0.0, tree.look(0.0))
        time.sleep(2)
        target.kill()
        target.wait()
        sampler.stop()
    assert sum(count for frames, count in read(tmp_path) if frames[0] == "main") > 5


@pytest.mark.shows("perfdoctor-killed")
@needs_pyspy
def test_pyspy_ends_when_perfdoctor_is_killed(tmp_path: Path) -> None:
    program = pyspy.executable()
    root = Path(pyspy.__file__).parents[2]
    source = f"""
import sys, time
sys.path.insert(0, {str(root)!r})
from perfdoctor.watch.samplers.pyspy import Recording
recording = Recording({program!r}, {{pid}}, 10, 60.0)
print(recording._process.pid, flush=True)
time.sleep(60)
"""
    with python(tmp_path, BUSY) as target:
        watching = subprocess.Popen(
            [sys.executable, "-c", source.replace("{pid}", str(target.pid))],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert watching.stdout is not None
        helper = psutil.Process(int(watching.stdout.readline()))
        time.sleep(1)
        assert helper.is_running()
        watching.kill()
        watching.wait()
        watching.stdout.close()
        wait_for(lambda: not helper.is_running() or helper.status() == psutil.STATUS_ZOMBIE)
        assert psutil.Process(target.pid).status() != psutil.STATUS_STOPPED


DENIED = """
import ctypes, os, time
os.setgid(65534)
os.setuid(65534)
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE: not even its own user may look
open("/proc/self/comm").close()
while True:
    time.sleep(0.01)
"""


@pytest.mark.shows("no-stacks")
@needs_pyspy
def test_a_process_that_may_not_be_looked_into_turns_to_samples_from_within(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to become somebody else")
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv is not installed")
    wrapper = Path("/tmp") / f"perfdoctor-test-{os.getpid()}"
    wrapper.mkdir()
    try:
        copy = shutil.copy(pyspy.executable() or "", wrapper / "py-spy")
        os.chmod(wrapper, 0o755)
        program = wrapper / "as-nobody"
        program.write_text(
            f'#!/bin/sh\nexec setpriv --reuid 65534 --regid 65534 --clear-groups {copy} "$@"\n'
        )
        program.chmod(0o755)
        with python(tmp_path, DENIED) as target:
            steps_file(tmp_path, target.pid)
            wait_for(lambda: psutil.Process(target.pid).uids().real == 65534)
            log: list[str] = []
            tree = ProcessTree(tmp_path, target.pid)
            sampler = StackSampler(tmp_path, lambda *what: Recording(str(program), *what), log.append)

            def tick() -> bool:
                now = time.monotonic()
                sampler.tick(now, tree.look(now))
                return asked_for_samples(tmp_path)

            wait_for(tick)
            assert len(log) == 1
            assert psutil.Process(target.pid).status() != psutil.STATUS_STOPPED
    finally:
        shutil.rmtree(wrapper)

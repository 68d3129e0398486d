"""When ranks count as standing still, what is looked at then, and what is said."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import orjson
import pytest

from perfdoctor.model.measured import Marker
from perfdoctor.runs import hangs
from perfdoctor.runs.hangs import HungRank, Inside
from perfdoctor.runs.raw import NOW
from perfdoctor.watch.samplers.hang_detector import LONGEST_TICK_S, HangBounds, HangDetector
from perfdoctor.watch.samplers.processes import ProcessTree
from perfdoctor.watch.samplers.pyspy import SampledStack
from tests.support.processes import header

pytestmark = pytest.mark.process

S = 1_000_000_000
TORCH = "/env/lib/python3.12/site-packages/torch"
WAITING = ("<module> (/home/ada/train.py:30)", f"all_reduce ({TORCH}/distributed/distributed_c10d.py:99)")
STUCK = ("<module> (/home/ada/train.py:30)", "prepare (/home/ada/train.py:12)", f"f ({TORCH}/x.py:1)")


class Job:
    """Ranks on a clock of the test's, with the files that their probes would write."""

    def __init__(self, run: Path, ranks: int, bounds: HangBounds | None = None, others: Any = None) -> None:
        self.run = run
        self.now_s = 1000.0
        self.pids = {f"rank{rank}": 100 + rank for rank in range(ranks)}
        self.living = set(self.pids.values())
        self.cores = 0.0  # that each process keeps busy
        self.world = ranks
        self.looks: list[Sequence[int]] = []
        self.stacks: dict[int, tuple[str, ...]] = {}
        self.said: list[str] = []
        self.files = {}
        for tag, pid in self.pids.items():
            self.files[tag] = run / f"steps.{tag}.bin"
            self.files[tag].write_bytes(header(pid, int(tag[4:])))
        self.hangs = HangDetector(
            run, cast("ProcessTree", self), self.look_at, self.said.append, bounds, others
        )

    def look(self, now_s: float) -> list[Any]:
        times = SimpleNamespace(user=self.cores * self.now_s, system=0.0)
        process = SimpleNamespace(cpu_times=lambda: times)
        return [SimpleNamespace(pid=pid, process=process) for pid in self.living]

    def ranks(self, now_s: float) -> dict[str, int]:
        return self.pids

    def is_job(self) -> bool:
        return self.world > 1

    def look_at(self, pids: Sequence[int]) -> Mapping[int, Sequence[SampledStack]]:
        self.looks.append(pids)
        return {
            pid: [SampledStack(pid, "MainThread", self.stacks[pid], 1)] for pid in pids if pid in self.stacks
        }

    def wait(self, seconds: float, every_s: float = 1.0) -> None:
        end_s = self.now_s + seconds
        while self.now_s < end_s:
            self.now_s += every_s
            self.hangs.tick(self.now_s)

    def train(self, steps: int, step_s: float = 1.0, *tags: str, marker: Marker = Marker.UPDATE) -> None:
        for _ in range(steps):
            begin_ns, self.now_s = int(self.now_s * S), self.now_s + step_s
            for tag in tags or self.pids:
                with open(self.files[tag], "ab") as file:
                    file.write(struct.pack("<qqBHIq", int(self.now_s * S), begin_ns, marker, 1, 1, 0))
            self.hangs.tick(self.now_s)

    def lines(self) -> list[dict[str, Any]]:
        file = self.run / hangs.FILE
        return [orjson.loads(line) for line in file.read_bytes().splitlines()] if file.exists() else []


def test_ranks_that_stand_still_are_looked_at_once_and_said_in_one_line(tmp_path: Path) -> None:
    job = Job(tmp_path, 4)
    job.train(10)
    job.stacks = {100: WAITING, 101: STUCK, 102: WAITING, 103: WAITING}
    job.wait(29)
    assert job.looks == []
    job.wait(60)
    assert [sorted(pids) for pids in job.looks] == [[100, 101, 102, 103]]
    place = "/home/ada/train.py:12"
    assert job.said == [f"no step for 31 s: rank 1 is in {place}, ranks 0, 2–3 wait in all_reduce"]
    found = hangs.read(tmp_path)
    assert found[1].functions == ("<module>", "prepare", "f")
    assert (found[0].inside, found[1].inside) == (Inside("all_reduce"), None)


def test_slow_steps_are_given_twenty_of_their_own(tmp_path: Path) -> None:
    job = Job(tmp_path, 2)
    job.train(5, 10.0)
    job.wait(199)
    assert job.looks == []
    job.wait(3)
    assert len(job.looks) == 1


def test_a_long_first_step_is_no_measure_for_the_others(tmp_path: Path) -> None:
    job = Job(tmp_path, 2)
    job.train(1, 120.0)
    job.train(10)
    job.wait(32)
    assert len(job.looks) == 1


def test_before_the_first_steps_ranks_are_given_minutes(tmp_path: Path) -> None:
    job = Job(tmp_path, 2)
    job.wait(299)
    assert job.looks == []
    job.wait(4)
    assert job.said == ["no step yet after 301 s: ranks 0–1 could not be inspected"]


def test_a_process_alone_may_take_its_time_to_start(tmp_path: Path) -> None:
    job = Job(tmp_path, 1)
    job.wait(3000)
    assert job.looks == []


@pytest.mark.parametrize("name", ["workers.rank1.bin", "events.rank1.jsonl"])
def test_batches_and_events_show_that_a_rank_is_at_work(tmp_path: Path, name: str) -> None:
    job = Job(tmp_path, 2)
    job.train(10)
    for _ in range(10):
        with open(tmp_path / name, "ab") as file:
            file.write(b"more")
        job.wait(20)
    assert job.looks == []


def test_a_pause_that_came_before_is_usual(tmp_path: Path) -> None:
    job = Job(tmp_path, 2)
    job.train(10)
    job.wait(40)
    job.train(10)
    assert len(job.looks) == 1
    assert [line["event"] for line in job.lines()] == ["stalled", "stalled", "resumed"]
    assert hangs.read(tmp_path) == {}
    job.wait(79)
    assert len(job.looks) == 1
    job.wait(5)
    assert len(job.looks) == 2


def test_a_rank_that_has_ended_is_told_from_those_that_wait_for_it(tmp_path: Path) -> None:
    job = Job(tmp_path, 3)
    job.train(10)
    job.living.discard(101)
    job.stacks = {100: WAITING, 102: WAITING}
    job.wait(35)
    assert job.said == ["no step for 31 s: rank 1 has ended, ranks 0, 2 wait in all_reduce"]
    assert hangs.read(tmp_path)[1].ended


def test_ranks_that_are_through_with_training_do_not_hang(tmp_path: Path) -> None:
    job = Job(tmp_path, 2)
    job.train(10)
    job.train(1, marker=Marker.END)
    job.wait(1000)
    assert job.looks == []


def test_ranks_that_are_ended_in_a_hang_have_not_gone_on(tmp_path: Path) -> None:
    job = Job(tmp_path, 2)
    job.train(10)
    job.wait(35)
    for tag in job.pids:
        (tmp_path / f"events.{tag}.jsonl").write_text('{"event": "end"}\n')
    job.train(1, marker=Marker.END)
    job.living.clear()
    job.wait(35)
    assert set(hangs.read(tmp_path)) == {0, 1}


def test_of_two_starts_of_a_rank_the_living_process_is_looked_at(tmp_path: Path) -> None:
    job = Job(tmp_path, 2)
    job.train(10)
    job.living = {200, 201}
    for rank in (0, 1):
        tag = f"rank{rank}.{200 + rank}"
        job.pids[tag], job.files[tag] = 200 + rank, tmp_path / f"steps.{tag}.bin"
        job.files[tag].write_bytes(header(200 + rank, rank))
    job.train(10, 1.0, "rank0.200", "rank1.201")
    job.wait(32)
    assert [sorted(pids) for pids in job.looks] == [[200, 201]]
    assert {hung.pid for hung in hangs.read(tmp_path).values()} == {200, 201}


def test_all_ranks_at_work_in_one_place_are_left_alone_for_minutes(tmp_path: Path) -> None:
    job = Job(tmp_path, 2)
    job.train(10)
    job.stacks, job.cores = {100: STUCK, 101: STUCK}, 1.0
    job.wait(290)
    assert (len(job.looks), job.said) == (1, [])
    job.wait(20)
    assert job.said == ["no step for 300 s: ranks 0–1 are in /home/ada/train.py:12"]


def test_a_process_alone_that_sleeps_is_said(tmp_path: Path) -> None:
    job = Job(tmp_path, 1)
    job.train(10)
    job.stacks = {100: STUCK}
    job.wait(35)
    assert job.said == ["no step for 31 s: it is in /home/ada/train.py:12"]


def test_what_a_rank_says_itself_goes_before_its_stack(tmp_path: Path) -> None:
    job = Job(tmp_path, 2)
    job.train(10)
    job.stacks = {100: STUCK, 101: STUCK}
    for rank, inside in ((0, 1), (1, 0)):
        slot = NOW.pack(0, 10, 4096, 30, 0, 2, inside)
        (tmp_path / f"collectives.rank{rank}.bin").write_bytes(b" " * 3968 + slot + b" " * 200)
    job.wait(35)
    assert job.said == ["no step for 31 s: rank 1 is in /home/ada/train.py:12, rank 0 waits in all_gather"]
    inside = hangs.read(tmp_path)[0].inside
    assert inside is not None
    assert (inside.name, inside.step, inside.sequence) == ("all_gather", 10, 30)


def test_where_nobody_may_look_from_outside_the_ranks_own_samples_tell(tmp_path: Path) -> None:
    job = Job(tmp_path, 2)
    for rank in (0, 1):
        (tmp_path / f"stacks.rank{rank}.txt").write_text("# source=in-process rate_hz=20\nmain;f (x:1) 9\n")
    job.train(10)
    job.wait(35)
    assert job.said == []
    for rank, stack in ((0, WAITING), (1, STUCK)):
        with open(tmp_path / f"stacks.rank{rank}.txt", "a") as file:
            file.write(
                f"main;{';'.join(stack)} 700\nmain;g (/home/ada/train.py:31) 3\nthread a;h (y:1) 900\n"
            )
    job.wait(1)
    assert job.said == ["no step for 36 s: rank 1 is in /home/ada/train.py:12, rank 0 waits in all_reduce"]
    assert hangs.read(tmp_path)[1].functions == ("<module>", "prepare", "f")


def test_a_process_at_work_that_samples_itself_is_left_alone_for_minutes(tmp_path: Path) -> None:
    job = Job(tmp_path, 1)
    samples = tmp_path / "stacks.rank0.txt"
    samples.write_text("# source=in-process rate_hz=20\nmain;f (x:1) 9\n")
    job.train(10)
    job.cores = 1.0
    job.wait(35)
    with open(samples, "a") as file:
        file.write(f"main;{';'.join(STUCK)} 700\n")
    job.wait(255)
    assert (hangs.read(tmp_path)[0].functions, job.said) == (("<module>", "prepare", "f"), [])
    job.wait(20)
    assert job.said == ["no step for 300 s: it is in /home/ada/train.py:12"]


def test_ranks_whose_samples_never_come_are_said_all_the_same(tmp_path: Path) -> None:
    job = Job(tmp_path, 2)
    for rank in (0, 1):
        (tmp_path / f"stacks.rank{rank}.txt").write_text("# source=in-process rate_hz=20 idle=1\n")
    job.train(10)
    job.wait(110)
    assert job.said == ["no step for 101 s: ranks 0–1 could not be inspected"]


def test_what_other_watches_of_the_job_saw_is_said_with_it(tmp_path: Path) -> None:
    job = Job(tmp_path, 1, others=lambda: [HungRank(1, 7, 30.0, inside=Inside("barrier"))])
    job.world = 2
    job.train(10)
    job.stacks = {100: STUCK}
    job.wait(40)
    assert job.said == ["no step for 36 s: rank 0 is in /home/ada/train.py:12, rank 1 waits in barrier"]


@pytest.mark.shows("suspend")
def test_time_in_which_this_process_was_stopped_too_does_not_count(tmp_path: Path) -> None:
    job = Job(tmp_path, 2)
    job.train(10)
    job.wait(3600, every_s=3600)
    job.wait(20)
    assert job.looks == []
    assert job.hangs._still_s == pytest.approx(20 + LONGEST_TICK_S)

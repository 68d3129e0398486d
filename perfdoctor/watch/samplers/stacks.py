"""Stacks of the training processes and their loader workers, by py-spy, or asked for from within.

The training process is sampled all the time, in chunks; of all the workers one at a time for a few seconds,
in turn, since they do the same work and each costs as much as the training process. In the first seconds it
is several at a time, while they show too little of how batches are prepared. Counts are added up in memory
and the file is replaced after each chunk, so it holds every stack once, is whole at any moment, and loses at
most one chunk if perfdoctor is killed.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path

import psutil

from perfdoctor.watch.samplers.processes import RunProcess, has_row
from perfdoctor.watch.samplers.pyspy import Recording, RecordingEnd, SampledStack
from perfdoctor.wire import names
from perfdoctor.wire.folded_stacks import END, folded, header
from perfdoctor.wire.rows import SAMPLE_BYTE

MOST_HZ = 20
THREAD_SAMPLES_PER_S = 600  # py-spy's cost grows with the threads: 20 Hz up to 30 of them, then fewer
LATE_HZ = 5  # after LATE_AFTER_S there are 12 000 samples; the run may take days
LATE_AFTER_S = 600.0
FIRST_CHUNK_S = 10.0  # so that a killed run of a minute has stacks
CHUNK_S = 30.0
LATE_CHUNK_S = 60.0

WORKER_HZ = 10
WORKER_CHUNK_S = 5.0
WORKER_PAUSE_S = 1.0  # attaching costs 20-30 ms of CPU: at most one a second where workers restart quickly
LATE_WORKER_PAUSE_S = 30.0
# Where many workers prepare few batches each, one alone shows too little before a short run, or they, end.
FIRST_WORKERS = 4  # at a time
FIRST_WORKER_HZ = 20
FIRST_WORKER_CHUNK_S = 2.0
FIRST_WORKERS_FOR_S = 20.0  # after the training began, at the most
ENOUGH_PREPARING = 30  # samples of batches being prepared
ENOUGH_IDLE = 60  # samples of workers, at one time, of which none prepares a batch: they have little to do
FETCH_FILE = "_utils/fetch.py:"  # of torch.utils.data: whoever is below it prepares a batch
UNDECLARED_AFTER_S = 2.0  # until then a forked helper of the script may look like a worker yet to fetch
MOST_WORKER_NAMES = 32  # workers that restart each epoch have new ids; later ones are counted as "worker *"

FAILURES_ALLOWED = 2  # an attach may hit a bad moment; a second failure in a row is a refusal
LARGEST_BYTES = 8 * 1024 * 1024  # of the folded stacks; rare ones are added up as "(rare stacks)" beyond it
RARE = "(rare stacks)"
PROBE_FRAME = "/perfdoctor/probe/"  # the folder of the wrappers around what the training thread does

Start = Callable[[int, int, float], Recording]  # (pid, rate, seconds)


class FoldedStacks:
    """The stacks of one rank, added up, and their file."""

    def __init__(self, path: Path, rate_hz: int) -> None:
        self._path = path
        self.rate_hz = rate_hz  # that its counts are of
        self._counts: dict[tuple[str, ...], float] = {}
        self._bytes = 0
        self._workers: set[int] = set()

    def add_main(self, pid: int, stacks: Sequence[SampledStack], rate_hz: int) -> None:
        """Add a chunk of the training process; `main` is the thread that trains.

        `rate_hz`: at which it was taken. Where that is lower than the file's rate, each sample counts for
        several: else the first minutes of a long run would weigh more than the hours after them.
        """
        trains = training_thread(pid, stacks)
        each = self.rate_hz / rate_hz
        for stack in stacks:
            label = "main" if stack.thread_id == trains else f"thread {stack.thread_name or stack.thread_id}"
            self._add((label, *stack.frames), stack.count * each)

    def add_worker(self, pid: int, stacks: Iterable[SampledStack]) -> None:
        """Add a chunk of a loader worker: its main thread from the worker loop on, and others it started."""
        if len(self._workers) < MOST_WORKER_NAMES:
            self._workers.add(pid)
        label = f"worker {pid}" if pid in self._workers else "worker *"
        for stack in stacks:
            if stack.thread_id == pid:
                self._add((label, *from_worker_loop(stack.frames)), stack.count)
            else:
                self._add((f"{label} thread {stack.thread_name or 'unnamed'}", *stack.frames), stack.count)

    def write(self) -> None:
        """Replace the file by what has been counted so far."""
        if self._bytes > LARGEST_BYTES:
            self._drop_rare()
        draft = self._path.with_name(self._path.name + ".part")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(header("py-spy", self.rate_hz))
            for (label, *frames), count in self._counts.items():
                file.write(folded(label, frames, round(count)))
            file.write(END)
        os.replace(draft, self._path)

    def _add(self, key: tuple[str, ...], count: float) -> None:
        if key not in self._counts:
            self._bytes += sum(len(part) + 1 for part in key)
        self._counts[key] = self._counts.get(key, 0) + count

    def _drop_rare(self) -> None:
        """Keep the commonest stacks up to half the bound; the others' counts stay, without their frames."""
        counts, self._counts, self._bytes = self._counts, {}, 0
        for key, count in sorted(counts.items(), key=lambda item: -item[1]):
            self._add(key if self._bytes < LARGEST_BYTES // 2 else (key[0], RARE), count)


def training_thread(pid: int, stacks: Sequence[SampledStack]) -> int:
    """The thread that the probe's wrappers were seen in most; the first one of the process if in none."""
    samples = Counter({pid: 0})
    for stack in stacks:
        # In a thread of the probe's own nobody else calls it.
        if any(PROBE_FRAME in frame and PROBE_FRAME not in above for above, frame in pairwise(stack.frames)):
            samples[stack.thread_id] += stack.count
    # The first thread wins whenever it was seen at all: the autograd engine's threads run hooks, too.
    return pid if samples[pid] else max(samples, key=lambda thread: samples[thread])


def from_worker_loop(frames: tuple[str, ...]) -> tuple[str, ...]:
    """The stack without what a fork inherited from the training process, or a spawn's start-up."""
    for index in range(len(frames) - 1, -1, -1):
        if frames[index].startswith("_worker_loop ("):
            return frames[index:]
    return frames


def preparing(stacks: Iterable[SampledStack]) -> int:
    """The samples of a worker in which it prepares a batch."""
    return sum(stack.count for stack in stacks if any(FETCH_FILE in frame for frame in stack.frames))


class _SampledRank:
    """The stack sampling of one training process."""

    def __init__(self, run: Path, pid: int, tag: str, rate_hz: int, now_s: float) -> None:
        self.pid = pid
        self.header = run / names.rows_file("steps", tag)
        self.folded = FoldedStacks(run / names.stacks_file(tag), rate_hz)
        self.began_s = now_s
        self.recording: Recording | None = None
        self.rate_hz = rate_hz  # of that recording
        self.chunks = 0
        self.failures = 0
        self.off = False

    def chunk_s(self, now_s: float) -> float:
        if self.chunks == 0:
            return FIRST_CHUNK_S
        return CHUNK_S if now_s - self.began_s < LATE_AFTER_S else LATE_CHUNK_S


class StackSampler:
    """Keeps one recording per rank going, and one (at first a few) for all workers; `start` starts one."""

    def __init__(self, run: Path, start: Start | None, log: Callable[[str], None]) -> None:
        self._run = run
        self._start = start
        self._log = log
        self._ranks: dict[str, _SampledRank] = {}  # by tag
        self._workers: list[tuple[str, Recording]] = []  # (tag, recording)
        self._preparing = 0  # samples of workers that were preparing a batch
        self._first = True  # whether workers are sampled as at first
        self._last_worker = 0
        self._worker_due_s = 0.0
        self._workers_since_s = 0.0  # when those that are sampled began to be
        self._ended_cpu_s = 0.0

    def cpu_s(self) -> float:
        """CPU seconds that py-spy has used so far."""
        return self._ended_cpu_s + sum(recording.cpu_s() for recording in self._recordings())

    def tick(self, now_s: float, members: list[RunProcess]) -> None:
        """Take in what has ended and start what is due."""
        mains = {member.tag: member for member in members if member.role == "main"}
        for tag, member in mains.items():
            if (
                tag is not None
                and tag not in self._ranks
                and has_row(self._run / names.rows_file("steps", tag))
            ):
                rate = self._rate(member, len(mains))
                self._ranks[tag] = _SampledRank(self._run, member.pid, tag, rate, now_s)
        for tag, rank in self._ranks.items():
            if rank.recording is not None and not rank.recording.running():
                self._take(rank, alive=tag in mains)
            if rank.recording is None and tag in mains and not rank.off:
                self._record(rank, mains[tag], now_s, len(mains))
        self._tick_worker(now_s, [member for member in members if member.role == "worker"])

    def stop(self) -> None:
        """Interrupt every recording and keep what it has."""
        for recording in self._recordings():
            recording.interrupt()
        for rank in self._ranks.values():
            if rank.recording is not None:
                self._take(rank, alive=False)
        self._take_workers(self._workers)

    def _recordings(self) -> list[Recording]:
        recordings = [rank.recording for rank in self._ranks.values() if rank.recording is not None]
        return recordings + [recording for _, recording in self._workers]

    def _rate(self, member: RunProcess, ranks: int) -> int:
        """Samples per second for one of `ranks` training processes."""
        try:
            threads = max(1, member.process.num_threads())
        except psutil.Error:
            threads = 1
        return max(1, min(MOST_HZ, THREAD_SAMPLES_PER_S // threads) // max(1, ranks))

    def _record(self, rank: _SampledRank, member: RunProcess, now_s: float, ranks: int) -> None:
        rate = min(self._rate(member, ranks), rank.folded.rate_hz)
        if now_s - rank.began_s >= LATE_AFTER_S:
            rate = min(rate, LATE_HZ)
        rank.rate_hz = rate
        try:
            if self._start is None:
                raise FileNotFoundError("py-spy is not installed")
            rank.recording = self._start(rank.pid, rate, rank.chunk_s(now_s))
        except OSError as error:
            self._fall_back(rank, str(error))

    def _take(self, rank: _SampledRank, alive: bool) -> None:
        """Keep the chunk that has ended; a second refusal in a row turns to samples from within."""
        recording, rank.recording = rank.recording, None
        outcome = self._ended(recording)
        if outcome.stacks:
            rank.failures, rank.chunks = 0, rank.chunks + 1
            rank.folded.add_main(rank.pid, outcome.stacks, rank.rate_hz)
            rank.folded.write()
            return
        rank.failures += alive
        if rank.failures >= FAILURES_ALLOWED:
            self._fall_back(rank, outcome.trouble or "py-spy saw no stack")

    def _fall_back(self, rank: _SampledRank, why: str) -> None:
        rank.off = True
        self._log(f"stacks cannot be sampled from outside, so the process samples its own: {why}")
        request_samples(rank.header)

    def _ended(self, recording: Recording | None) -> RecordingEnd:
        if recording is None:
            return RecordingEnd((), None)
        outcome = recording.outcome()
        self._ended_cpu_s += recording.cpu_s()
        return outcome

    def _tick_worker(self, now_s: float, workers: list[RunProcess]) -> None:
        if any(recording.running() for _, recording in self._workers):
            return
        if self._workers:
            self._take_workers(self._workers)
            self._worker_due_s = now_s + self._pause_s(now_s)
        ready = self._ready(now_s, workers)
        if self._start is None or not ready or now_s < self._worker_due_s:
            return
        rate, seconds = (
            (FIRST_WORKER_HZ, FIRST_WORKER_CHUNK_S) if self._first else (WORKER_HZ, WORKER_CHUNK_S)
        )
        self._workers_since_s = now_s
        try:
            for tag, pid in self._next(ready, FIRST_WORKERS if self._first else 1):
                self._workers.append((tag, self._start(pid, rate, seconds)))
                self._last_worker = pid
        except OSError:
            self._worker_due_s = now_s + LATE_WORKER_PAUSE_S  # out of processes or descriptors, for now

    def _pause_s(self, now_s: float) -> float:
        """How long the workers are left alone after a recording: not at first, unless it ended with them."""
        if self._first and now_s - self._workers_since_s >= FIRST_WORKER_CHUNK_S / 2:
            return 0.0
        late = any(now_s - rank.began_s >= LATE_AFTER_S for rank in self._ranks.values())
        return LATE_WORKER_PAUSE_S if late else WORKER_PAUSE_S

    def _ready(self, now_s: float, workers: list[RunProcess]) -> list[tuple[str, int]]:
        """(tag, pid) of the workers that can be sampled."""
        began_s = max((rank.began_s for rank in self._ranks.values()), default=now_s)
        self._first = self._first and now_s - began_s < FIRST_WORKERS_FOR_S
        ready = [
            member
            for member in workers
            if member.tag in self._ranks
            and not self._ranks[member.tag].off
            and (member.declared or now_s - began_s >= UNDECLARED_AFTER_S)
        ]
        declared = [member for member in ready if member.declared]
        return [(member.tag or "", member.pid) for member in declared or ready]

    def _next(self, ready: list[tuple[str, int]], most: int) -> list[tuple[str, int]]:
        """As many of them whose turn it is."""
        turns = sorted(ready, key=lambda worker: (worker[1] <= self._last_worker, worker[1]))
        return turns[:most]

    def _take_workers(self, recorded: list[tuple[str, Recording]]) -> None:
        """Keep what was seen of workers; they are sampled as at first while that finds some, but too few."""
        self._workers = []
        seen = found = 0
        for tag, recording in recorded:
            outcome = self._ended(recording)
            rank = self._ranks[tag]
            if outcome.stacks and not rank.off:  # once it is off, the file is the probe's
                seen += sum(stack.count for stack in outcome.stacks if stack.thread_id == recording.pid)
                found += preparing(outcome.stacks)
                rank.folded.add_worker(recording.pid, outcome.stacks)
                rank.folded.write()
        self._preparing += found
        idle = seen >= ENOUGH_IDLE and found == 0  # where fewer were seen, the workers ended too soon
        self._first = self._first and not idle and self._preparing < ENOUGH_PREPARING


def request_samples(header: Path) -> None:
    """Ask the probe that owns this steps file to sample stacks from within."""
    with open(header, "r+b", buffering=0) as file:
        file.seek(SAMPLE_BYTE)
        file.write(b"\x01")

"""What a stretch of batches cost: seconds, CPU seconds, bytes; and what a process and the machine hold."""

from __future__ import annotations

import os
import re
import time
import traceback
from typing import Any, Callable, Dict, List, Optional, Tuple

from ..containers import is_a
from ..user_frames import is_users
from .batch_content import bytes_of, leaves, samples_of

SIZED = 32  # batches of a stretch whose sizes are looked at
BLOCKS = 12  # a stretch is told in about so many parts of equal length, so that its spread is known
LEAST_ROUNDS = 3  # of a stretch; it may take twice its time for them
TICKS = os.sysconf("SC_CLK_TCK")
SHARED = "/dev/shm"
LONGEST_ERROR = 300  # characters
FRAME = re.compile(r'File "([^"\n]+)", line (\d+)')

clock, cpu_clock = time.perf_counter, time.process_time


class Caught:
    """Keeps an error that the script's own code raised, so that what comes next goes on."""

    error: Optional[Exception] = None

    def __enter__(self) -> Caught:
        return self

    def __exit__(self, kind: object, error: Optional[BaseException], at: object) -> bool:
        if isinstance(error, Exception):
            self.error = error
            return True
        return False


class Dry(Exception):
    """The loader gave no batch."""


class Stretch:
    """Batches that were taken one after the other, and what they cost."""

    def __init__(self, batches: int, seconds: float, blocks: List[float], block_batches: int) -> None:
        self.batches = batches
        self.seconds = seconds
        self.block_s = blocks  # of equal numbers of batches
        self.block_batches = block_batches
        self.samples = self.bytes = 0.0  # of a batch
        self.cpu_s = 0.0  # of this process
        self.workers_cpu_s = 0.0
        self.delay_s = self.workers_delay_s = (
            0.0  # this thread and the workers were ready to run, and had no core
        )


def stretch(
    take: Callable[[], Any],
    size: int,
    pids: List[int],
    seconds: float,
    over: Callable[[], bool],
    batch_size: int = 0,
) -> Optional[Stretch]:
    """Batches taken for `seconds`, in rounds of `size`; None where not one round comes before `over()`.

    `batch_size`: as the loader tells it, 0 if it does not.
    It ends early where `take` raises Dry, and where rounds are long, after LEAST_ROUNDS of them or twice
    the time, whichever comes first.
    """
    from torch import Tensor

    sizes: List[Tuple[int, int]] = []
    begin = _spent(pids)
    marks = [clock()]
    try:
        while marks[-1] - marks[0] < (1.0 if len(marks) > LEAST_ROUNDS else 2.0) * seconds:
            for _ in range(size):
                batch = take()
                if len(sizes) < SIZED:
                    sizes.append((samples_of(batch, Tensor, batch_size), bytes_of(batch, Tensor)))
            if over():
                break
            marks.append(clock())
    except Dry:
        pass  # what came until then counts
    rounds = len(marks) - 1
    if not rounds:
        return None
    per = max(1, rounds // BLOCKS)
    blocks = [marks[end] - marks[end - per] for end in range(per, rounds + 1, per)]
    result = Stretch(rounds * size, marks[-1] - marks[0], blocks, per * size)
    result.samples, result.bytes = (sum(column) / len(sizes) for column in zip(*sizes))
    spent = [after - before for after, before in zip(_spent(pids), begin)]
    result.cpu_s, result.workers_cpu_s, result.delay_s, result.workers_delay_s = spent
    return result


def _spent(pids: List[int]) -> Tuple[float, float, float, float]:
    """CPU seconds of this process and of others; seconds that this thread and they waited for a core."""
    waited_s = sum(_delay_s(str(pid)) for pid in pids)
    return cpu_clock(), sum(map(_cpu_s, pids)), _delay_s("thread-self"), waited_s


def _cpu_s(pid: int) -> float:
    """CPU seconds of a process; 0 where it is gone."""
    words = text_of(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / TICKS if len(words) > 12 else 0.0


def _delay_s(name: str) -> float:
    """Seconds that a thread was ready to run and had no core; 0 where the kernel does not tell."""
    words = text_of(f"/proc/{name}/schedstat").split()
    return int(words[1]) / 1e9 if len(words) == 3 else 0.0


class Costs:
    """What batches cost that this process makes itself, collating apart; keeps one batch's samples."""

    def __init__(self) -> None:
        self.held: Any = None
        self._fetcher: Any = None
        self._collate: Callable[[Any], Any] = list
        self.reset()

    def reset(self) -> None:
        """Count anew."""
        self._collate_s = self._collate_cpu_s = 0.0

    def collate_costs(self) -> Dict[str, Any]:
        """Seconds of collating since the last reset."""
        return {"collate_s": self._collate_s, "collate_cpu_s": self._collate_cpu_s}

    def watch(self, fetcher: Any) -> None:
        """Time the collate function of a fetcher."""
        if fetcher is not self._fetcher:
            self._fetcher, self._collate = fetcher, fetcher.collate_fn
            fetcher.collate_fn = self.collate

    def collate(self, samples: Any) -> Any:
        """Collate as the script does."""
        if self.held is None:
            self.held = list(map(_copied, samples)) if is_a(samples, list) else _copied(samples)
        begin, cpu = clock(), cpu_clock()
        batch = self._collate(samples)
        self._collate_s += clock() - begin
        self._collate_cpu_s += cpu_clock() - cpu
        return batch


class Held:
    """Samples that were read before, as a dataset: each time anew, since collate functions change them."""

    def __init__(self, samples: List[Any]) -> None:
        self._samples = samples

    def __getitem__(self, index: int) -> Any:
        return _copied(self._samples[index])


def _copied(sample: Any) -> Any:
    """The sample, or its copy where it is a container that keys are taken from and values appended to."""
    return sample.copy() if is_a(sample, (dict, list)) else sample


def same(torch: Any, one: Any, other: Any) -> bool:
    """Whether two batches hold the same tensors; False where they hold none."""
    pairs = list(zip(leaves(one, torch.Tensor), leaves(other, torch.Tensor)))
    return bool(pairs) and all(
        left.shape == right.shape and torch.equal(left, right) for left, right in pairs
    )


def private_bytes(pid: int) -> Optional[int]:
    """Memory that belongs to a process alone, None where the kernel does not tell."""
    lines = [line.split() for line in text_of(f"/proc/{pid}/smaps_rollup").splitlines()]
    sizes = [int(words[1]) for words in lines if words[0] in ("Private_Clean:", "Private_Dirty:")]
    return sum(sizes) * 1024 if sizes else None


def free_memory_bytes() -> float:
    """What the machine has left for processes; without end where it does not tell."""
    lines = [line.split() for line in text_of("/proc/meminfo").splitlines()]
    return next((int(words[1]) * 1024.0 for words in lines if words[0] == "MemAvailable:"), float("inf"))


def free_shared_bytes() -> float:
    """What is left of the memory that batches are handed over in; without end where there is none."""
    try:
        about = os.statvfs(SHARED)
    except OSError:
        return float("inf")
    return float(about.f_bavail * about.f_frsize)


def described(error: BaseException) -> Dict[str, Any]:
    """An error in a line, and the innermost line of the user's code that it went through."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
    # what a worker raised comes with its whole traceback as text, which ends with the error itself
    from_worker = "Original Traceback" in str(error)
    words = lines[-1] if from_worker else f"{type(error).__name__}: {lines[0]}"
    frames = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    frames += FRAME.findall(str(error)) if from_worker else []
    places = [
        {"file": os.path.abspath(file), "line": int(line or 0)} for file, line in frames if is_users(file)
    ]
    return {"error": words[:LONGEST_ERROR], "at": places[-1] if places else None}


def text_of(path: str) -> str:
    """A small file's text; empty where it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""

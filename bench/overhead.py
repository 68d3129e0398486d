"""What watching costs: alternating bare and watched runs, of one process and of two ranks, start-up, memory.

    python bench/overhead.py [--rounds 5] [--loads mlp,cnn,ddp-1,ddp-16] [--write]

Per-step figures are CPU time of the training thread, as the load itself measured it: a low quantile over
steps, then the median over rounds, so that neither other work on the machine nor the few steps inside
profiler windows decide. Two runs of one program differ by a few percent: the tiny load is the sharpest.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

from perfdoctor.facts.steps import watching_cost
from perfdoctor.runs import directory, records

HERE = Path(__file__).parent
ROOT = HERE.parent
PAGE = ROOT / "docs" / "overhead.md"
INJECT = ROOT / "perfdoctor" / "probe" / "inject"
PERFDOCTOR = [sys.executable, "-m", "perfdoctor"]
WATCH = [*PERFDOCTOR, "run", "-q"]
WAYS: dict[str, list[str] | None] = {
    "bare": None,
    "always on": ["--no-stacks", "--no-profiler"],
    "+ windows": ["--no-stacks"],
    "+ stacks": ["--no-profiler"],
    "everything": [],
}
LOADS = {
    "tiny": "one layer, one sample",
    "mlp": "MLP, about 400 steps/s",
    "cnn": "CNN, about 50 ms a step",
    "loader": "4 loader workers",
    "busy_thread": "a busy Python thread beside the loop",
}
RANKS = {
    "ddp-1": ("DistributedDataParallel, 1 bucket", ["--way", "buckets", "--pieces", "1"]),
    "ddp-16": ("DistributedDataParallel, 16 buckets", ["--way", "buckets", "--pieces", "16"]),
    "calls-1": ("1 all-reduce a step", ["--way", "calls", "--pieces", "1"]),
    "calls-16": ("16 all-reduces a step", ["--way", "calls", "--pieces", "16"]),
    "handles-16": ("16 all-reduces with handles", ["--way", "handles", "--pieces", "16"]),
    "fsdp-4": ("4 layers sharded by fully_shard", ["--way", "sharded", "--pieces", "4"]),
}
RANK_COUNT = 2
QUIET = 0.2  # quantile over steps that stands for an undisturbed one
WARM_UP = 0.1  # of the steps: lazy initialisation, and nothing of ours
STARTS = 21  # runs of each short command
POLL_S = 0.1  # between two looks at perfdoctor's own memory


@dataclass
class Sample:
    """One run of one load."""

    step_cpu_us: float  # a quiet step, CPU time of the training thread
    step_wall_us: float  # mean step
    run_s: float  # the whole process, start to end
    own_peak_bytes: int = 0  # of perfdoctor's process
    windows: int = 0  # recorded
    windows_share: float = 0.0  # start, stop, export and slowdown of all windows, of the time of the steps
    rows: float = 0.0  # of exchanges, per step
    own_us: float = 0.0  # per step, of recording exchanges, as the probe timed itself
    said_us: tuple[float, float, float] = (0.0, 0.0, 0.0)  # per step, as the report says: low, likely, high


@dataclass
class Results:
    """Everything measured."""

    samples: dict[tuple[str, str], list[Sample]] = field(default_factory=dict)
    commands_s: dict[str, float] = field(default_factory=dict)
    ranks: dict[tuple[str, str], list[Sample]] = field(default_factory=dict)


# ---------------------------------------------------------------- measuring


def run_load(load: str, options: list[str] | None, folder: Path) -> Sample:
    """Run a load once, bare or watched, and read the figures that it wrote."""
    figures = folder / "figures.json"
    command = [str(HERE / "loads" / f"{load}.py"), "--figures", str(figures)]
    if load in RANKS:
        script = str(HERE / "loads" / "ranks.py")
        launcher = ["-m", "torch.distributed.run", "--nproc-per-node", str(RANK_COUNT)]
        command = [*launcher, script, "--figures", str(figures), *RANKS[load][1]]
    if options is None:
        command = [sys.executable, *command]
    else:
        command = [*WATCH, "--out", str(folder / "runs"), *options, *command]
    begin = time.perf_counter()
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    peak = _wait(process)
    run_s = time.perf_counter() - begin
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with status {process.returncode}")
    taken = json.loads(figures.read_text())
    quiet_us, mean_s = step_times(taken)
    sample = Sample(quiet_us, mean_s * 1e6, run_s, peak)
    if options is not None:
        run = directory.latest(folder / "runs")
        found = records.read(run).ranks[0]
        sample.said_us = told_us(run)
        sample.windows = sum(window.get("outcome") == "ok" for window in found.of("window"))
        steps_s = (taken["wall_ns"][-1] - taken["wall_ns"][0]) / 1e9
        sample.windows_share = watching_cost.windows_s(found, mean_s) / steps_s
        told = found.of("collectives")
        if told and found.collectives is not None:
            sample.rows = len(found.collectives) / len(taken["wall_ns"])
            sample.own_us = told[-1]["own_s"] * 1e6 / len(taken["wall_ns"])
    return sample


def told_us(run: Path) -> tuple[float, float, float]:
    """(low, likely, high) microseconds a step of watching by a run's report; high: likely where not known."""
    told = json.loads((run / "report.json").read_text())["overhead"]
    likely = told["seconds_per_step"]
    low, high = told["low_seconds_per_step"], told["high_seconds_per_step"]
    return low * 1e6, likely * 1e6, (likely if high is None else high) * 1e6


def step_times(taken: dict[str, list[int]]) -> tuple[float, float]:
    """(CPU microseconds of a quiet step, seconds of a mean step) by what a load wrote of itself."""
    cpu = [later - earlier for earlier, later in zip(taken["cpu_ns"], taken["cpu_ns"][1:], strict=False)]
    cpu = cpu[int(WARM_UP * len(cpu)) :]
    wall = taken["wall_ns"][int(WARM_UP * len(taken["wall_ns"])) :]
    quiet_ns = sorted(cpu)[int(QUIET * len(cpu))]
    return quiet_ns / 1e3, (wall[-1] - wall[0]) / (len(wall) - 1) / 1e9


def _wait(process: subprocess.Popen[bytes]) -> int:
    """Wait for the process; return the most memory it was seen to use itself, without its children."""
    peak = 0
    watched = psutil.Process(process.pid)
    while process.poll() is None:
        try:
            peak = max(peak, watched.memory_info().rss)
        except psutil.Error:
            break
        time.sleep(POLL_S)
    process.wait()
    return peak


def measure_loads(
    loads: list[str], ways_of: dict[str, list[str] | None], rounds: int, console: Console
) -> dict[tuple[str, str], list[Sample]]:
    """Alternate the ways within each round; every other round backwards, so that drift cancels."""
    samples: dict[tuple[str, str], list[Sample]] = {}
    for load in loads:
        for number in range(rounds):
            ways = list(ways_of) if number % 2 == 0 else list(ways_of)[::-1]
            for way in ways:
                with tempfile.TemporaryDirectory() as folder:
                    sample = run_load(load, ways_of[way], Path(folder))
                samples.setdefault((load, way), []).append(sample)
                console.print(f"{load} {number + 1}/{rounds} {way}: {sample.step_cpu_us:.1f} us CPU a step")
    return samples


def timed(command: list[str], environment: dict[str, str]) -> float:
    """Seconds that a command takes."""
    begin = time.perf_counter()
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    return time.perf_counter() - begin


def measure_commands() -> dict[str, float]:
    """Start-up added to a script, and the commands that a person waits for; medians."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        run.mkdir()
        bare = dict(os.environ)
        injected = {**bare, "PYTHONPATH": str(INJECT), "PERFDOCTOR_RUN": str(run)}
        runs = Path(folder) / "runs"
        load = [str(HERE / "loads" / "mlp.py"), "--figures", str(Path(folder) / "figures.json")]
        subprocess.run([*WATCH, "--out", str(runs), *load], cwd=ROOT, check=True, capture_output=True)
        saved = str(next(runs.iterdir()))
        return {
            "start-up without torch, added": _added("pass", bare, injected, STARTS),
            "start-up with torch, added": _added("import torch", bare, injected, STARTS // 3),
            "perfdoctor --help": _median([sys.executable, "-m", "perfdoctor", "--help"], bare),
            "perfdoctor report": _median([sys.executable, "-m", "perfdoctor", "report", saved], bare),
        }


def _added(code: str, bare: dict[str, str], injected: dict[str, str], times: int) -> float:
    """Median of the differences between neighbouring runs without and with the probe."""
    command = [sys.executable, "-c", code]
    return statistics.median(timed(command, injected) - timed(command, bare) for _ in range(times))


def _median(command: list[str], environment: dict[str, str]) -> float:
    return statistics.median(timed(command, environment) for _ in range(STARTS // 2))


# ---------------------------------------------------------------- showing


def added_cpu_us(results: Results, load: str, way: str) -> float:
    """CPU microseconds a step added to the training thread: the median over rounds."""
    return _paired(results, load, way, lambda bare, watched: watched.step_cpu_us - bare.step_cpu_us)


def run_ratio(results: Results, load: str, way: str) -> float:
    """Wall time of the steps, watched over bare: the median over rounds."""
    return _paired(results, load, way, lambda bare, watched: watched.step_wall_us / bare.step_wall_us)


def _paired(results: Results, load: str, way: str, compare: Callable[[Sample, Sample], float]) -> float:
    pairs = zip(results.samples[load, "bare"], results.samples[load, way], strict=True)
    return statistics.median(compare(bare, watched) for bare, watched in pairs)


def rows(results: Results) -> list[list[str]]:
    """One line per load and way."""
    table = []
    for load, way in results.samples:
        if way == "bare":
            continue
        samples = results.samples[load, way]
        said = (sample.said_us for sample in samples)
        bare = statistics.median(sample.step_wall_us for sample in results.samples[load, "bare"])
        table.append([
            LOADS[load],
            way,
            f"{bare / 1e3:.2f}",
            f"{added_cpu_us(results, load, way):+.1f}",
            " / ".join(f"{statistics.median(case):.0f}" for case in zip(*said, strict=True)),
            f"{run_ratio(results, load, way):.3f}",
            f"{statistics.median(sample.windows for sample in samples):g}",
            f"{max(sample.windows_share for sample in samples):.2%}",
            f"{max(sample.own_peak_bytes for sample in samples) / 1e6:.0f}",
        ])  # fmt: skip
    return table


def rank_rows(results: Results) -> list[list[str]]:
    """One line per load of several ranks."""
    table = []
    for load in dict.fromkeys(load for load, _ in results.ranks):
        bare, watched = results.ranks[load, "bare"], results.ranks[load, "always on"]
        added = (after.step_cpu_us - before.step_cpu_us for before, after in zip(bare, watched, strict=True))
        own_us = statistics.median(sample.own_us for sample in watched)
        count = statistics.median(sample.rows for sample in watched)
        table.append([
            RANKS[load][0],
            f"{statistics.median(sample.step_cpu_us for sample in bare):.0f}",
            f"{statistics.median(added):+.1f}",
            f"{count:.1f}",
            f"{own_us:.1f}",
            f"{own_us / count if count else 0.0:.1f}",
        ])  # fmt: skip
    return table


RANK_HEADINGS = [
    "load",
    "bare CPU a step, us",
    "CPU added a step, us",
    "rows a step",
    "of that for rows, us",
    "us a row",
]
HEADINGS = [
    "load",
    "watched",
    "bare step, ms",
    "CPU added a step, us",
    "as reports say, us: low / likely / high",
    "wall time of the steps, ratio",
    "windows",
    "windows' share of the time",
    "own peak, MB",
]


def show(results: Results, console: Console) -> None:
    """Print the tables."""
    table = Table(*HEADINGS, title="What watching costs")
    for row in rows(results):
        table.add_row(*row)
    console.print(table)
    if results.ranks:
        ranks = Table(*RANK_HEADINGS, title=f"What watching {RANK_COUNT} ranks costs")
        for row in rank_rows(results):
            ranks.add_row(*row)
        console.print(ranks)
    for name, seconds in results.commands_s.items():
        console.print(f"{name}: {seconds * 1e3:.1f} ms")


def page(results: Results, rounds: int) -> str:
    """The page for docs/."""
    import torch

    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}, torch {torch.__version__}"
    lines = [
        "# What watching costs",
        "",
        "Written by `python bench/overhead.py --write`; " + machine + f"; {rounds} alternating rounds.",
        "",
        "*CPU added a step* is the training thread's CPU time of a quiet step (the 20 % quantile), watched",
        "minus bare: the median over rounds; beside it what the reports of these runs say.",
        "Two runs of one program differ by a few percent of a step, so the load with the shortest step has",
        "the sharpest figure. *Ratio* is the mean step's wall time, watched over bare, windows included; on",
        "a machine that has other work it scatters by several percent. *Windows' share* is start, stop,",
        "export and slowdown of all windows over the time of the steps, the largest of the rounds.",
        "*Own peak* is the memory of perfdoctor's own process.",
        "",
        "| " + " | ".join(HEADINGS) + " |",
        "|" + "---|" * len(HEADINGS),
        *("| " + " | ".join(row) + " |" for row in rows(results)),
        "",
        *(
            ["| " + " | ".join(RANK_HEADINGS) + " |", "|" + "---|" * len(RANK_HEADINGS)]
            if results.ranks
            else []
        ),
        *("| " + " | ".join(row) + " |" for row in rank_rows(results)),
        "",
        "| | ms |",
        "|---|---|",
        *(f"| {name} | {seconds * 1e3:.1f} |" for name, seconds in results.commands_s.items()),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print, and write the page if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--loads", default=",".join([*LOADS, *RANKS]), help="which loads, with commas between"
    )
    parser.add_argument("--no-commands", action="store_true", help="leave out start-up and commands")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    args = parser.parse_args()
    console = Console()
    loads = args.loads.split(",")
    alone, together = [load for load in loads if load in LOADS], [load for load in loads if load in RANKS]
    in_ranks = {way: WAYS[way] for way in ("bare", "always on")}
    results = Results(
        measure_loads(alone, WAYS, args.rounds, console),
        {} if args.no_commands else measure_commands(),
        measure_loads(together, in_ranks, args.rounds, console),
    )
    show(results, console)
    if args.write:
        PAGE.write_text(page(results, args.rounds), encoding="utf-8")


if __name__ == "__main__":
    main()

"""What joining the ranks of a large job costs, and how exactly it is told who is late.

    python bench/ranks.py [--ranks 1024] [--steps 1000] [--nodes 128] [--rounds 3]

The ranks are written as the probe writes them, with a delay planted in one of them. The report of all is
made by processes that do nothing else, on two cores; figures are medians. Asked: 20 s, 1 GB, 5 %.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # the generator belongs to the tests

from tests.support.jobs import write_job  # noqa: E402

ASKED_S, ASKED_BYTES, ASKED_ERROR = 20.0, 1e9, 0.05
CORES = 2
PLANTED = (  # (ranks, late rank, milliseconds, phase, in every n-th step)
    (2, 1, 1.0, "data_wait", 1),
    (2, 0, 5.0, "forward", 1),
    (2, 1, 20.0, "other", 5),
    (8, 3, 1.0, "backward", 1),
    (8, 5, 5.0, "data_wait", 1),
    (8, 0, 40.0, "checkpoint", 10),
    (64, 17, 2.0, "host_to_device", 1),
)
# Not ru_maxrss: that remembers the process before it became this program.
MEASURE = """
import json, os, re, sys, time
from pathlib import Path
began, begin = time.perf_counter(), os.times()
from perfdoctor import reporting
from perfdoctor.render.documents import report as document
first, *others = [Path(word) for word in sys.argv[1:]]
report = reporting.judge(first, others)
text = document.dumps(report)
end = os.times()
facts = report.job
late = facts.straggler
print(json.dumps({
    "seconds": time.perf_counter() - began,
    "cpu_s": end.user + end.system - begin.user - begin.system,
    "peak_bytes": int(re.search(r"VmHWM:\\s*(\\d+) kB", open("/proc/self/status").read())[1]) * 1024,
    "ranks": len(facts.ranks), "matched": facts.matched, "verdict": report.diagnosis.verdict.value,
    "late": late and late.rank, "behind_ms": late and late.behind_s * 1e3, "cause": late and late.cause.value,
    "bytes": len(text),
}))
"""

Json = dict[str, object]


def measured(folders: Iterable[Path]) -> Json:
    """One report of all ranks, made by a process of its own."""
    cores = sorted(os.sched_getaffinity(0))[:CORES]
    words = [sys.executable, "-c", MEASURE, *map(str, folders)]
    done = subprocess.run(
        words, cwd=ROOT, capture_output=True, check=True, preexec_fn=lambda: os.sched_setaffinity(0, cores)
    )
    found: Json = json.loads(done.stdout)
    return found


def joined(ranks: int, steps: int, nodes: int, rounds: int) -> Table:
    """What the report of a large job costs."""
    with tempfile.TemporaryDirectory() as folder:
        planted = write_job(
            Path(folder), ranks, steps, nodes, late=ranks // 3, late_ms=5.0, clocks_s=(0.0, 7_200.25, 600.5)
        )
        size = sum(file.stat().st_size for place in planted.folders for file in place.iterdir())
        runs = [measured(planted.folders) for _ in range(rounds)]
    table = Table(
        "ranks", "steps", "folders", "read", "seconds", "CPU seconds", "peak memory", "late", "asked"
    )
    middle = {name: statistics.median(float(str(run[name])) for run in runs) for name in ("seconds", "cpu_s")}
    peak = max(float(str(run["peak_bytes"])) for run in runs)
    told = runs[0]
    table.add_row(
        f"{told['ranks']:,}",
        f"{steps:,}",
        f"{nodes:,}",
        f"{size / 1e6:,.0f} MB",
        f"{middle['seconds']:.1f}",
        f"{middle['cpu_s']:.1f}",
        f"{peak / 1e6:,.0f} MB",
        f"rank {told['late']} ({told['cause']})",
        _within(middle["seconds"] <= ASKED_S and peak <= ASKED_BYTES),
    )
    return table


def attributed(steps: int) -> Table:
    """How near the delay that is told comes to the one that was planted."""
    table = Table("ranks", "planted", "in", "every", "late rank", "told", "error", "cause", "asked")
    for ranks, late, ms, phase, every in PLANTED:
        with tempfile.TemporaryDirectory() as folder:
            planted = write_job(
                Path(folder), ranks, steps, late=late, late_ms=ms, late_phase=phase, late_every=every
            )
            told = measured(planted.folders)
        behind_ms = float(str(told["behind_ms"] or 0.0))
        often = len(range(every, steps, every)) / (steps - 1)  # the first step does not count
        error = behind_ms / (ms * often) - 1
        right = told["late"] == late and abs(error) <= ASKED_ERROR
        table.add_row(
            f"{ranks}",
            f"{ms:g} ms in rank {late}",
            phase,
            f"{every}",
            f"{told['late']}",
            f"{behind_ms:.3f} ms a step",
            f"{error:+.1%}",
            f"{told['cause']}",
            _within(right),
        )
    return table


def _within(reached: bool) -> str:
    return "reached" if reached else "MISSED"


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--nodes", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    console = Console(width=120)
    console.print(joined(args.ranks, args.steps, args.nodes, args.rounds))
    console.print(attributed(400))


if __name__ == "__main__":
    main()

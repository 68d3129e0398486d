"""What a report of a long run on many ranks costs: CPU seconds and memory of reading and judging it.

    python bench/analysis.py [--steps 100000] [--ranks 8] [--rounds 3]

A short real run is recorded; its rows, each later than the last, are repeated until there are enough steps,
and copied for every rank. The report is made by processes that do nothing else; figures are medians.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from perfdoctor.runs import directory, records

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "sample_scripts" / "workers_restart_each_epoch.py"
TIMES = ("begin_ns", "end_ns")
# Not ru_maxrss: that remembers the process before it became this program.
MEASURE = """
import json, os, re, sys
from pathlib import Path
begin = os.times()
from perfdoctor import reporting
report = reporting.judge(Path(sys.argv[1]))
end = os.times()
print(json.dumps({
    "cpu_s": end.user + end.system - begin.user - begin.system,
    "peak_bytes": int(re.search(r"VmHWM:\\s*(\\d+) kB", open("/proc/self/status").read())[1]) * 1024,
    "steps": report.steps.count, "ranks": report.run.ranks, "verdict": report.diagnosis.verdict.value,
}))
"""


def record(folder: Path) -> Path:
    """A short real run."""
    command = [sys.executable, "-m", "perfdoctor", "run", "-q", "--out", str(folder), str(SCRIPT)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return directory.latest(folder)


def repeat(path: Path, count: int) -> None:
    """Repeat a file's rows, each time later, until there are `count` of them."""
    rows = records.read_rows(path, [])
    if rows is None or not len(rows):
        return
    head = path.read_bytes()[: directory.HEADER_BYTES]
    length_ns = int(rows["end_ns"][-1] - rows["begin_ns"][0])
    copies = -(-count // len(rows))
    tiled = np.tile(rows, copies)[:count]
    later = np.repeat(np.arange(copies), len(rows))[:count] * length_ns
    for name in TIMES:
        tiled[name] += later
    path.write_bytes(head + tiled.tobytes())


def enlarge(run: Path, steps: int, ranks: int) -> None:
    """Make the run one of so many steps and ranks."""
    for kind in ("steps", "loader", "workers"):
        for path in run.glob(f"{kind}.rank0.bin"):
            repeat(path, steps)
    for path in list(run.glob("*.rank0.*")):
        for rank in range(1, ranks):
            shutil.copy(path, path.with_name(path.name.replace("rank0", f"rank{rank}")))


def main() -> None:
    """Record, enlarge, report, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = record(Path(folder))
        enlarge(run, args.steps, args.ranks)
        size = sum(path.stat().st_size for path in run.iterdir())
        command = [sys.executable, "-c", MEASURE, str(run)]
        found = [
            json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)
            for _ in range(args.rounds)
        ]
    table = Table("steps", "ranks", "files, MB", "CPU s", "peak MB", "verdict", title="Report of a long run")
    table.add_row(
        f"{found[0]['steps']:,}",
        str(found[0]["ranks"]),
        f"{size / 1e6:.0f}",
        f"{statistics.median(run['cpu_s'] for run in found):.2f}",
        f"{statistics.median(run['peak_bytes'] for run in found) / 1e6:.0f}",
        found[0]["verdict"],
    )
    Console().print(table)


if __name__ == "__main__":
    main()

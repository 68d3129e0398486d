"""What a report of a long run on many ranks costs: CPU seconds and memory of reading and judging it.

    python bench/analysis.py [RUN] [--steps 10000000] [--ranks 1] [--rounds 3] [--write]

RUN, or a short run that is recorded for this, is made longer: its rows, each later than the last, are
repeated until there are enough steps, several to a row as in any long run, and copied for every rank. The
report is made by processes that do nothing else; figures are medians.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from perfdoctor.probe.recorder import RAW_ROWS, ROWS_PER_MERGE
from perfdoctor.runs import directory, records
from perfdoctor.trace.parse.columns import Ints
from perfdoctor.wire.rows import HEADER_BYTES
from perfdoctor.wire.step_rows import ROLLED_UP

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "sample_scripts" / "workers_restart_each_epoch.py"
PAGE = ROOT / "docs" / "long-runs.md"
BEGIN, END = "<!-- analysis: begin -->", "<!-- analysis: end -->"
HEADS = ("steps", "ranks", "files, MB", "CPU s", "peak MB", "verdict")
# Columns of which a row that covers several markers has the last one's value.
NOT_SUMMED = {"begin_ns", "end_ns", "marker", "flags", "optimizer", "loss", "pid", "worker", "loader"}
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


def borders(count: int) -> Ints:
    """Where rows begin and end that cover `count` markers as the probe writes them: ever more, past many."""
    widths, known = [np.ones(RAW_ROWS, np.int64)], RAW_ROWS
    while known < count:
        widths.append(np.full(ROWS_PER_MERGE, 2 ** len(widths)))
        known += int(widths[-1].sum())
    edges = np.concatenate(([0], np.cumsum(np.concatenate(widths))))
    return np.append(edges[edges < count], count)


def prolong(path: Path, times: float) -> None:
    """Make a file of rows what it would be, had the run gone on alike for so many times as long."""
    rows = records.read_rows(path, [])
    if rows is None or not len(rows):
        return
    edges = borders(round(len(rows) * times))
    first, last = edges[:-1], edges[1:] - 1  # of the markers that a row covers
    long = rows[last % len(rows)]
    length_ns = int(rows["end_ns"][-1] - rows["begin_ns"][0])
    long["begin_ns"] = rows["begin_ns"][first % len(rows)] + first // len(rows) * length_ns
    long["end_ns"] += last // len(rows) * length_ns
    for name in set(rows.dtype.names) - NOT_SUMMED:
        sums = np.concatenate(([0], np.cumsum(rows[name], dtype=np.int64)))
        upto = edges // len(rows) * sums[-1] + sums[edges % len(rows)]
        long[name] = np.diff(upto)
    if "flags" in rows.dtype.names:
        long["flags"] |= (ROLLED_UP * (last > first)).astype(rows.dtype["flags"])
    path.write_bytes(path.read_bytes()[:HEADER_BYTES] + long.tobytes())


def enlarge(run: Path, steps: int, ranks: int) -> None:
    """Make the run one of so many steps and ranks."""
    rows = records.read_rows(run / "steps.rank0.bin", [])
    times = steps / records.steps_made(rows)
    for kind in ("steps", "loader", "workers"):
        for path in run.glob(f"{kind}.rank0.bin"):
            prolong(path, times)
    about = json.loads((run / "run.json").read_text())
    about["end_ns"] = about["begin_ns"] + round((about["end_ns"] - about["begin_ns"]) * times)
    (run / "run.json").write_text(json.dumps(about))
    for path in list(run.glob("*.rank0.*")):
        for rank in range(1, ranks):
            shutil.copy(path, path.with_name(path.name.replace("rank0", f"rank{rank}")))


def main() -> None:
    """Record, enlarge, report, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run", nargs="?", type=Path)
    parser.add_argument("--steps", type=int, default=10_000_000)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="perfdoctor-bench-") as folder:
        source = args.run or record(Path(folder) / "recorded")
        run = Path(shutil.copytree(source, Path(folder) / "long" / source.name))
        enlarge(run, args.steps, args.ranks)
        size = sum(path.stat().st_size for path in run.iterdir())
        command = [sys.executable, "-c", MEASURE, str(run)]
        found = [
            json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)
            for _ in range(args.rounds)
        ]
    row = (
        f"{found[0]['steps']:,}",
        str(found[0]["ranks"]),
        f"{size / 1e6:.0f}",
        f"{statistics.median(run['cpu_s'] for run in found):.2f}",
        f"{statistics.median(run['peak_bytes'] for run in found) / 1e6:.0f}",
        found[0]["verdict"],
    )
    table = Table(*HEADS, title="Report of a long run")
    table.add_row(*row)
    Console().print(table)
    if args.write:
        head, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        said = f"Written by `python bench/analysis.py --write`, on {platform.machine()}; medians."
        lines = (f"| {' | '.join(cells)} |" for cells in (HEADS, ("---",) * len(HEADS), row))
        part = "\n".join([BEGIN, said, "", *lines, END])
        PAGE.write_text(f"{head}{part}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    main()

"""What analysing a large trace costs: CPU seconds and memory of reading and measuring.

    python bench/trace.py [TRACE] [--gb 1.0] [--rounds 3] [--write]
    python bench/trace.py --layouts [FOLDER] [--gb 1.0] [--rounds 1] [--write]

The large trace is TRACE tiled: its events again and again, each time later and with correlations of their
own. Without TRACE, a real one is taken from ../shared/traces if that folder is there; else two hundred steps
of a small network are recorded on this machine (without a GPU, such a trace holds no kernels). Every figure
is the median over processes that do nothing else. With --layouts, each trace of a folder is tiled: tools and
versions differ in how they spell events, and in what they tell of them.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "trace.md"
REAL = ROOT.parent / "shared" / "traces" / "hta_nsres_v100.pt.trace.json.gz"
SMALLEST_BYTES = 100_000  # of JSON: a few events over and over are no trace of anybody's
TRACES = "*.pt.trace.json*"
ADDED = re.compile(rb'("ts": |"correlation": |"External id": |"id": )(\d+)')
FIRST = re.compile(rb'\{\s*"(?:ph|name)": ')
BETWEEN = re.compile(rb'\}(\s*,\s*)\{\s*"(?:ph|name)": ')
LIST_END = re.compile(rb"\}\s*\]")
RANK = re.compile(rb'("rank": )\d+')
RANKS = 8
RENUMBERED = 10_000_000  # correlations and ids of one tile lie this far behind those of the one before it
GAP_US = 1000  # between two tiles
MEASURE = """
import json, os, re, sys
from perfdoctor.trace.measure.measure import measure
from perfdoctor.trace.parse.read import read
begin = os.times()
trace = read(sys.argv[1])
middle = os.times()
result = measure(trace)
end = os.times()
cpu = lambda a, b: b.user + b.system - a.user - a.system
print(json.dumps({
    "read_s": cpu(begin, middle), "measure_s": cpu(middle, end),
    "events": trace.events, "device_events": len(trace.device),
    # Not ru_maxrss: that remembers the process before it became this program.
    "peak_bytes": int(re.search("VmHWM:\\s*(\\d+) kB", open("/proc/self/status").read())[1]) * 1024,
}))
"""
RECORD = """
import sys, torch
net = torch.nn.Sequential(*[layer for _ in range(8) for layer in (torch.nn.Linear(64, 64), torch.nn.ReLU())])
sgd = torch.optim.SGD(net.parameters(), lr=0.01)
with torch.profiler.profile() as profile:
    for _ in range(200):
        sgd.zero_grad()
        net(torch.randn(32, 64)).sum().backward()
        sgd.step()
        profile.step()
profile.export_chrome_trace(sys.argv[1])
"""


def text_of(source: Path) -> bytes:
    """The JSON of a trace."""
    return gzip.decompress(source.read_bytes()) if source.suffix == ".gz" else source.read_bytes()


def tiled(source: Path, out: Path, gb: float, rank: int = 0) -> int:
    """Write `source` so often behind itself that `out` has `gb` GB, as `rank`; returns how often."""
    text = text_of(source)
    first = FIRST.search(text, max(0, text.find(b'"traceEvents"')))
    last = LIST_END.search(text, text.rindex(b'"ph": '))
    parted = BETWEEN.search(text, first.start()) if first else None
    if not (first and last and parted):
        raise SystemExit(f"{source} is spelled in a way that cannot be tiled")
    begin, end, between = first.start(), last.start() + 1, parted[1]
    body = text[begin:end]
    parts, last = [], 0
    for found in ADDED.finditer(body):
        parts.append((body[last : found.start(2)], found[1] == b'"ts": ', int(found[2])))
        last = found.end()
    stamps = [number for _, is_stamp, number in parts if is_stamp]
    span_us = max(stamps) - min(stamps) + GAP_US
    times = max(1, round(gb * 1e9 / len(body)))
    with out.open("wb") as file:
        file.write(RANK.sub(rb"\g<1>%d" % rank, text[:begin]))
        for tile in range(times):
            file.write(between if tile else b"")
            for unchanged, is_stamp, number in parts:
                file.write(unchanged)
                file.write(b"%d" % (number + tile * (span_us if is_stamp else RENUMBERED)))
            file.write(body[last:])
        file.write(RANK.sub(rb"\g<1>%d" % rank, text[end:]))
    return times


def measured(path: Path, rounds: int) -> dict[str, float]:
    """Medians over `rounds` processes that read and measure the file."""
    results = []
    for _ in range(rounds):
        ended = subprocess.run(
            [sys.executable, "-c", MEASURE, str(path)], capture_output=True, text=True, check=True, cwd=ROOT
        )
        results.append(json.loads(ended.stdout))
    return {name: statistics.median(result[name] for result in results) for name in results[0]}


def at_once(paths: list[Path]) -> tuple[float, float]:
    """Wall and CPU seconds of `perfdoctor trace` over the files of several ranks."""
    begin, cpu = time.perf_counter(), os.times()
    subprocess.run(
        [sys.executable, "-m", "perfdoctor", "trace", "--json", *map(str, paths)],
        stdout=subprocess.DEVNULL, check=True, cwd=ROOT,
    )  # fmt: skip
    after = os.times()
    used = after.children_user + after.children_system - cpu.children_user - cpu.children_system
    return time.perf_counter() - begin, used


def compressed(path: Path) -> Path:
    """The file beside it as .gz."""
    packed = path.with_suffix(".json.gz")
    with path.open("rb") as plain, gzip.open(packed, "wb", compresslevel=6) as out:
        while block := plain.read(1 << 24):
            out.write(block)
    return packed


def layouts(sources: Iterable[Path], gb: float, rounds: int) -> Table:
    """The figures of each trace, tiled."""
    found = Table("trace", "GB", "events", "device events", "CPU s", "CPU s per GB", "peak MB")
    for source in sources:
        if len(text_of(source)) < SMALLEST_BYTES:
            continue
        with tempfile.TemporaryDirectory(prefix="perfdoctor-bench-") as folder:
            large = Path(folder) / "tiled.json"
            times, size_gb = tiled(source, large, gb), large.stat().st_size / 1e9
            result = measured(large, rounds)
        cpu_s = result["read_s"] + result["measure_s"]
        found.add_row(
            f"{source.name.split('.')[0]} x{times}",
            f"{size_gb:.3f}",
            f"{result['events']:,.0f}",
            f"{result['device_events']:,.0f}",
            f"{cpu_s:.2f}",
            f"{cpu_s / size_gb:.2f}",
            f"{result['peak_bytes'] / 1e6:.0f}",
        )
    return found


def table(source: Path, gb: float, rounds: int) -> Table:
    """The figures of all sizes."""
    found = Table(
        "trace", "GB", "events", "device events", "read, CPU s", "measure, CPU s", "together", "peak MB"
    )

    def row(name: str, path: Path) -> None:
        result = measured(path, rounds)
        found.add_row(
            name,
            f"{path.stat().st_size / 1e9:.3f}",
            f"{result['events']:,.0f}",
            f"{result['device_events']:,.0f}",
            f"{result['read_s']:.2f}",
            f"{result['measure_s']:.2f}",
            f"{result['read_s'] + result['measure_s']:.2f}",
            f"{result['peak_bytes'] / 1e6:.0f}",
        )

    with tempfile.TemporaryDirectory(prefix="perfdoctor-bench-") as folder:
        for size in (0.035, gb / 4, gb):
            large = Path(folder) / f"{size:g}.json"
            times = tiled(source, large, size)
            row(f"{source.name.split('.')[0]} x{times}", large)
        row("the same, gzip", compressed(large))
        large.unlink()
        paths = [Path(folder) / f"rank{rank}.json" for rank in range(RANKS)]
        for rank, path in enumerate(paths):
            tiled(source, path, gb / 2 / RANKS, rank)
        wall_s, cpu_s = at_once(paths)
        name = f"{RANKS} ranks at once: {wall_s:.2f} s of wall time"
        found.add_row(name, f"{gb / 2:.3f}", "", "", "", "", f"{cpu_s:.2f}", "")
    return found


def main() -> None:
    """Parse the arguments, measure, print, and write the table into its page if asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trace", nargs="?", type=Path)
    parser.add_argument("--layouts", action="store_true", help="tile each trace of a folder")
    parser.add_argument("--gb", type=float, default=1.0)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.relative_to(ROOT)}")
    options = parser.parse_args()
    if options.layouts:
        folder = options.trace or REAL.parent
        ranks = (sorted(inner.glob(TRACES))[:1] for inner in sorted(folder.iterdir()) if inner.is_dir())
        sources = [*sorted(folder.glob(TRACES)), *(path for first in ranks for path in first)]
        show(layouts(sources, options.gb, options.rounds or 1), "layouts", options.write)
        return
    with tempfile.TemporaryDirectory(prefix="perfdoctor-bench-") as folder:
        source = options.trace or REAL
        if not source.exists():
            source = Path(folder) / "recorded.json"
            subprocess.run([sys.executable, "-c", RECORD, str(source)], check=True)
        show(table(source, options.gb, options.rounds or 3), "bench", options.write)


def show(found: Table, mark: str, write: bool) -> None:
    """Print the table, and put it between the marks of its page if asked to."""
    Console(width=140).print(found)
    if not write:
        return
    begin, end = f"<!-- {mark}: begin -->", f"<!-- {mark}: end -->"
    rows = zip(*(column.cells for column in found.columns), strict=True)
    heads = [str(column.header) for column in found.columns]
    lines = [
        f"| {' | '.join(heads)} |",
        "|" + "---|" * len(heads),
        *(f"| {' | '.join(row)} |" for row in rows),
    ]
    where = (
        f"Python {platform.python_version()}, {os.cpu_count()} cores, {time.strftime('%Y-%m-%d')}; medians."
    )
    page = PAGE.read_text()
    before, after = page.split(begin)[0], page.split(end)[1]
    PAGE.write_text(f"{before}{begin}\n{where}\n\n" + "\n".join(lines) + f"\n{end}{after}")


if __name__ == "__main__":
    main()

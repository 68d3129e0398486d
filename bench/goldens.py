"""Our figures of real traces against a reference: interval arithmetic written apart, checked by hand.

    python bench/goldens.py [FOLDER] [--write]

FOLDER holds traces and `golden/*.golden.json`; ../shared/traces without it. tests/e2e/test_golden.py compares
more.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # the tests measure as the reference does

from perfdoctor.trace.measure.measure import measure  # noqa: E402
from perfdoctor.trace.parse.read import read  # noqa: E402
from perfdoctor.trace.results import RankTrace, Times  # noqa: E402
from tests.support import golden_traces  # noqa: E402

PAGE = ROOT / "docs" / "trace.md"
BEGIN, END = "<!-- goldens: begin -->", "<!-- goldens: end -->"
HEADS = (
    "trace",
    "device",
    "events",
    "span, µs",
    "busy",
    "compute",
    "comm",
    "overlap",
    "stream gaps",
    "largest difference",
)


def references(folder: Path) -> Iterator[tuple[str, Path, dict[str, Any]]]:
    """Each trace: its name, its file, and what the reference says of it."""
    for golden in sorted((folder / "golden").glob("*.json")):
        document = json.loads(golden.read_text(encoding="utf-8"))
        inside = folder / document["id"]
        for rank, expected in document["ref"]["ranks"].items():
            names = [entry["file"] for entry in document["files"]]
            name = names[0] if len(names) == 1 else next(name for name in names if f"rank{rank}." in name)
            shown = document["id"] if len(names) == 1 else f"{document['id']} {rank}"
            yield shown, (inside if inside.is_dir() else folder) / Path(name).name, expected


def pairs(
    found: RankTrace, steps: Mapping[str, Times], expected: dict[str, Any]
) -> Iterator[tuple[str, float, float]]:
    """What both know, in microseconds: its name, our figure, the reference's. `steps`: between marks."""
    times = found.times
    if times is not None:
        yield "span, µs", times.span_us, expected["gpu_span_us"]
        yield "busy", times.busy_us, expected["busy_us"]
        yield "compute", times.compute_us, expected["compute_us"]
        yield "comm", times.comm_us, expected["comm_us"]
        yield "overlap", times.overlap_us, expected["comm_comp_overlap_us"]
        yield "copies", times.copy_us, expected["mem_us"]
        yield "copies and compute", times.copy_overlap_us, expected["mem_comp_overlap_us"]
        kernels = [use for use in found.kernels if not use.name.startswith(("Memcpy", "Memset"))]
        yield "kernels", sum(use.us for use in kernels), expected["kernel_sum_us"]
        for ours, theirs in zip(kernels, expected["top10_kernels"], strict=False):
            yield f"kernel {theirs['name']}", ours.us, theirs["us"]
    for use in found.streams:
        stream = expected["streams"][f"{use.device}/{use.stream}"]
        yield "stream gaps", use.host_wait_us, stream["gap_host_wait_us"]
        yield "stream gaps", use.kernel_wait_us, stream["gap_kernel_wait_us"]
        yield "stream gaps", use.other_gap_us, stream["gap_other_us"]
    for name, ours in steps.items():
        theirs = (expected.get("per_step") or {}).get(name.removeprefix("ProfilerStep#"))
        if theirs and times is not None:
            yield f"busy in {name}", ours.busy_us, theirs["gpu_busy_us"]


def row(name: str, path: Path, expected: dict[str, Any]) -> tuple[str, ...]:
    """A line of the table: our figures, and how far any of them is from the reference."""
    trace = read(path)
    found, steps = measure(golden_traces.unmarked(trace)), golden_traces.between_marks(trace)
    seen: dict[str, float] = {}
    worst = 0.0
    for what, ours, theirs in pairs(found, steps, expected):
        seen[what] = seen.get(what, 0.0) + ours
        worst = max(worst, abs(ours - theirs))
    figures = (f"{seen[head]:,.1f}" if head in seen else "" for head in HEADS[3:-1])
    largest = f"{worst:.4f} µs" if seen else "no device"
    return name, found.device or "", f"{found.events:,}", *figures, largest


def main() -> None:
    """Measure every trace, print the table, and write it into its page if asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT.parent / "shared" / "traces")
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.relative_to(ROOT)}")
    options = parser.parse_args()
    rows = [row(name, path, expected) for name, path, expected in references(options.folder)]
    table = Table(*HEADS)
    for cells in rows:
        table.add_row(*cells)
    Console(width=200).print(table)
    if options.write:
        lines = [
            f"| {' | '.join(HEADS)} |",
            "|" + "---|" * len(HEADS),
            *(f"| {' | '.join(cells)} |" for cells in rows),
        ]
        page = PAGE.read_text(encoding="utf-8")
        before, after = page.split(BEGIN)[0], page.split(END)[1]
        PAGE.write_text(f"{before}{BEGIN}\n" + "\n".join(lines) + f"\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()

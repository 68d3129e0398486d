"""What one GPU can show of docs/gpu.md, the most important first, in parts of seven minutes.

    python bench/gpu.py [--part 1] [--only "runs plain,cause tf32_off"] [--seconds 420] [--write]
    python bench/gpu.py --list
    python bench/gpu.py --dry
    python bench/gpu.py --from FILE [--again DIR] --write

Part 1: does `perfdoctor run` work at all. Parts 2, 4, 5, 6: is a planted cause found, at its line, with its
gain. Part 3: does `perfdoctor try` measure what the same change made by hand brings. Each check has a process
of its own and a time limit; what fails is a row like any other, and results are written after each check.
Nothing is downloaded. `--dry` goes the same ways on a CPU, with everything tiny: only failures count then.
`--from` runs nothing, and shows the results that were brought from another machine; `--again` judges the runs
that were kept there as they would be judged by now.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import accuracy
import psutil
from gpu_checks import CHECKS, HEADINGS, LOCK, PHASES_WITHIN, PLANTS, Check, Here, again, plants
from judging import median, share

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "gpu.md"
BEGIN, END = "<!-- gpu: begin -->", "<!-- gpu: end -->"
RESULTS = ROOT / ".perfdoctor" / "gpu.json"
SHARED = Path("/dev/shm")  # a trial's executions see copies of other files, and would lock those
PROGRAM = Path(__file__).with_name("gpu_checks.py")
PART_S = 420.0  # all four fit into half an hour
LEAST_S = 15.0  # a check that has less than that left is not begun
FAILED = "failed: "
TITLES = {
    "runs": f"Scripts that have to run as without perfdoctor (phases within {PHASES_WITHIN:.0%})",
    "facts": "The machine",
    "causes": "Planted causes and healthy scripts",
    "tweaks": "Tweaks against the same change made by hand",
}
Json = dict[str, Any]


# ---------------------------------------------------------------- running checks


def perform(check: Check, device: str, limit_s: float, results: Path, keep: Path | None) -> Json:
    """The row of a check; of one that fails or takes too long, why. `keep` gets what a failed one said."""
    begin_s = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        row, said = Path(folder, "row.json"), Path(folder, "said")
        command = [sys.executable, str(PROGRAM), check.name, "--device", device, "--row", str(row)]
        command += ["--earlier", str(results), *(["--keep", str(keep)] if keep else [])]
        with said.open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
        try:
            status = process.wait(limit_s)
            why = f"exit status {status}: {last_line(said)}"
        except subprocess.TimeoutExpired:
            why = f"more than {limit_s:.0f} s"
        finally:
            end(process)
        told = json.loads(row.read_text()) if row.exists() else failed(check, why)
        if keep is not None and not row.exists():
            keep.mkdir(parents=True, exist_ok=True)
            shutil.copy(said, keep / f"{check.name.replace(' ', '_')}.said")
    return {**told, "part": check.part, "seconds": time.monotonic() - begin_s, "device": device}


def end(process: subprocess.Popen[bytes]) -> None:
    """End a check with all that it started: what went on would disturb the next one."""
    family: list[psutil.Process] = []
    with suppress(psutil.Error):
        family = psutil.Process(process.pid).children(recursive=True)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    for each in family:
        with suppress(psutil.Error):
            each.kill()
    process.wait()


def last_line(said: Path) -> str:
    """The last line of a program's output, cut to what a table holds."""
    lines = said.read_text(errors="replace").strip().splitlines()
    return lines[-1][:120].replace("|", "/") if lines else "it said nothing"


def failed(check: Check, why: str) -> Json:
    """A row that says so."""
    name = check.name if check.table in ("facts", "tweaks") else check.name.partition(" ")[2]
    cells = [name, f"{FAILED}{why}", *["-"] * (len(HEADINGS[check.table]) - 2)]
    broken = [f"{FAILED}{why}"]
    return {"check": check.name, "table": check.table, "cells": cells, "broken": broken, "figures": {}}


def chosen(parts: Sequence[int], names: str | None) -> list[Check]:
    """The checks of the parts, or those that are named with commas between."""
    if names is None:
        return [check for check in CHECKS if check.part in parts]
    wanted = [name.strip() for name in names.split(",")]
    if unknown := set(wanted) - {check.name for check in CHECKS}:
        raise SystemExit(f"no such check: {', '.join(sorted(unknown))}; see: python bench/gpu.py --list")
    return [check for check in CHECKS if check.name in wanted]


# ---------------------------------------------------------------- keeping and showing


def earlier(results: Path, device: str) -> list[Json]:
    """The rows of earlier calls on the same kind of device."""
    rows = json.loads(results.read_text())["rows"] if results.exists() else []
    return [row for row in rows if row["device"] == device]


def save(results: Path, rows: list[Json]) -> None:
    """Write all rows, whole or not at all."""
    results.parent.mkdir(parents=True, exist_ok=True)
    document = {"written": datetime.datetime.now(datetime.timezone.utc).isoformat(), "rows": rows}
    new = results.with_suffix(".new")
    new.write_text(json.dumps(document, indent=1), encoding="utf-8")
    new.replace(results)


def summary(rows: list[Json]) -> list[str]:
    """One sentence for each promise, with what was reached."""
    figures = [row["figures"] for row in rows]
    causes = [each for each in figures if "cause_right" in each]
    planted = [each for each in causes if not each["healthy"] and plants(each["measured"])]
    idle = [
        row["cells"][0]
        for row in rows
        if row["table"] == "causes" and not plants(row["figures"].get("measured"))
    ]
    gains = [(each["predicted"], each["measured"]) for each in planted]
    errors = [each["step_error"] for each in planted if each["step_error"] is not None]
    known = [gain["low"] <= measured <= gain["high"] for gain, measured in gains if gain and measured]
    lines = [each["line_right"] for each in planted if each["line_right"] is not None]
    agree = [each["agrees"] for each in figures if each.get("agrees") is not None]
    healthy = [each for each in causes if each["healthy"]]
    alarms = [each["alarm"] for each in healthy]
    failures = [row["check"] for row in rows if row["cells"][1].startswith(FAILED)]
    unchanged = [not row["broken"] for row in rows if row["table"] == "runs"]
    return [
        f"checks: {len(rows)} of {len(CHECKS)} run, {len(failures)} failed",
        share("scripts that run as without perfdoctor", unchanged, "all"),
        share("verdict", [each["verdict_right"] for each in (*planted, *healthy)], ">= 93 %"),
        share("planted cause first", [each["cause_right"] for each in planted], ">= 90 %"),
        share("its line", lines, ">= 90 %"),
        f"alarms on healthy scripts: {sum(alarms)} of {len(alarms)} (promised: none)",
        f"predicted step time off by {median(errors)} in the median (promised: <= 15 %)",
        share("measured gain within the predicted range", known),
        share("trials that hold the gain by hand", agree),
        *(
            [f"left out above, since curing them gains less than {PLANTS - 1:.0%} here: {', '.join(idle)}"]
            if idle
            else []
        ),
    ]


def page(rows: list[Json]) -> str:
    """The part of docs/gpu.md that this program owns."""
    lines = [f"Written by `python bench/gpu.py --write`; {named(rows)}.", ""]
    lines += [f"- {line}" for line in summary(rows)]
    for table, title in TITLES.items():
        own = [row["cells"] for row in rows if row["table"] == table]
        if own:
            lines += ["", f"### {title}", "", *accuracy.markdown([list(HEADINGS[table]), *map(_safe, own)])]
    broken = [f"- {row['check']}: {'; '.join(row['broken'])}" for row in rows if row["broken"]]
    return "\n".join([*lines, *(["", "### Broken promises", "", *broken] if broken else [])])


def _safe(cells: list[str]) -> list[str]:
    return [cell.replace("|", "/").replace("\n", " ") for cell in cells]


def named(rows: list[Json]) -> str:
    """The device and its software."""
    figures: Json = next((row["figures"] for row in rows if row["check"] == "machine"), {})
    parts = [figures.get("name", "an unknown device")]
    parts += [f"{what} {figures[what]}" for what in ("torch", "cuda", "cudnn") if figures.get(what)]
    return ", ".join(parts)


def write(rows: list[Json]) -> None:
    """Replace this program's part of the page; the rest of it is written by hand."""
    head, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(f"{head}{BEGIN}\n{page(rows)}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


def has_device() -> bool:
    """Whether torch can use one, asked in a process of its own: this one shall not hold its memory."""
    code = "import sys, torch; sys.exit(not torch.cuda.is_available())"
    return subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def asked() -> argparse.Namespace:
    """What was asked for, with nothing in it that contradicts itself."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", type=int, action="append", choices=sorted({c.part for c in CHECKS}))
    parser.add_argument("--only", metavar="A,B", help="these checks, with commas between")
    parser.add_argument(
        "--seconds", type=float, default=PART_S, help="for each part; what is left is not run"
    )
    parser.add_argument(
        "--lanes", type=int, default=1, help="checks side by side, of which one at a time has the device"
    )
    parser.add_argument("--dry", action="store_true", help="on a CPU, everything tiny")
    parser.add_argument("--results", type=Path, help=f"JSON (default: {RESULTS.relative_to(ROOT)})")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the watched runs, for a second look")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    parser.add_argument("--from", type=Path, metavar="FILE", dest="brought", help="show these results only")
    parser.add_argument("--again", type=Path, metavar="DIR", help="with --from: the runs that --keep kept")
    parser.add_argument("--list", action="store_true", help="name the checks and end")
    args = parser.parse_args()
    if args.dry and args.write:
        parser.error("a dry run says nothing about a GPU: --write is left out with --dry")
    args.results = (args.results or (RESULTS.with_stem("gpu-dry") if args.dry else RESULTS)).resolve()
    args.keep = args.keep.resolve() if args.keep else None
    return args


def main() -> int:
    """Check after check; 1 where one failed."""
    args = asked()
    if args.list:
        print("\n".join(f"{check.part}  {check.name}" for check in CHECKS))
        return 0
    if args.brought is not None:
        rows = earlier(args.brought, "cuda")
        rows = [judged_again(row, args.again) for row in rows] if args.again else rows
        if args.write:
            write(rows)
        print(page(rows))
        return 0
    device = "cpu" if args.dry else "cuda"
    if not args.dry and not has_device():
        raise SystemExit(
            "torch finds no CUDA device here; try the program out with: python bench/gpu.py --dry"
        )
    checks = chosen(args.part or sorted({check.part for check in CHECKS}), args.only)
    kept = Kept(args, device)
    with tempfile.NamedTemporaryFile(dir=SHARED if SHARED.is_dir() else None) as lock:
        if args.lanes > 1:
            os.environ[LOCK] = lock.name
            # Threads that wait for one another by spinning need cores of their own.
            os.environ.setdefault("OMP_NUM_THREADS", str(max(1, len(os.sched_getaffinity(0)) // args.lanes)))
        for part in dict.fromkeys(check.part for check in checks):
            kept.run([check for check in checks if check.part == part])
    print("\n".join(["", named(kept.rows), *summary(kept.rows)]))
    return 1 if kept.failures else 0


class Kept:
    """The rows so far, written after each check: an interrupted run leaves what it has."""

    def __init__(self, args: argparse.Namespace, device: str) -> None:
        self.args = args
        self.device = device
        self.rows = earlier(args.results, device)
        self.failures = 0
        self.changing = threading.Lock()

    def run(self, checks: Sequence[Check]) -> None:
        """Check after check, or as many side by side as there are lanes, until the time is over."""
        end_s = time.monotonic() + self.args.seconds
        with ThreadPoolExecutor(self.args.lanes) as lanes:
            list(lanes.map(lambda check: self.perform(check, end_s), checks))

    def perform(self, check: Check, end_s: float) -> None:
        """One check, if there is time for it."""
        left_s = end_s - time.monotonic()
        if left_s < LEAST_S:
            print(f"{check.name}: not run, {self.args.seconds:.0f} s are over", flush=True)
            return
        limit_s = min(check.limit_s * self.args.lanes, left_s)  # in lanes, mostly waiting for the device
        row = perform(check, self.device, limit_s, self.args.results, self.args.keep)
        with self.changing:
            self.rows = in_order([*(each for each in self.rows if each["check"] != check.name), row])
            self.failures += row["cells"][1].startswith(FAILED)
            print(f"{row['seconds']:4.0f} s  {' | '.join(row['cells'])}", flush=True)
            save(self.args.results, self.rows)
            if self.args.write:
                write(self.rows)


def judged_again(row: Json, kept: Path) -> Json:
    """The row of a cause by its kept run, if there is one."""
    run = kept.resolve() / row["check"].partition(" ")[2]
    if row["table"] != "causes" or not row["figures"] or not run.exists():
        return row
    with tempfile.TemporaryDirectory() as folder:
        new = again(Here("cuda", Path(folder)), row, run)
    return {**row, "cells": new.cells, "broken": new.broken, "figures": new.figures}


def in_order(rows: list[Json]) -> list[Json]:
    """As the checks are."""
    order = [check.name for check in CHECKS]
    return sorted((row for row in rows if row["check"] in order), key=lambda row: order.index(row["check"]))


if __name__ == "__main__":
    sys.exit(main())

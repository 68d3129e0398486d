"""What a folder of many runs costs the verbs that look into it: CPU seconds and files opened.

    python bench/many_runs.py [RUN] [--runs 2000] [--rounds 5] [--write]

RUN, or else a run of `sample_scripts/too_few_workers.py` that is made for this, stands in the folder as often
as asked for, each time with an id and a time of its own. Files are links to those of RUN but for `run.json`.
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
from pathlib import Path

from rich.console import Console

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "long-runs.md"
BEGIN, END = "<!-- many runs: begin -->", "<!-- many runs: end -->"
PERFDOCTOR = [sys.executable, "-m", "perfdoctor"]
EVERY_S = 600.0  # between two runs
PROMISED_S = 0.5
VERBS = ("runs", "report")
OPENED = """
import sys
opened = 0
def count(event, arguments):
    global opened
    opened += event == "open" and isinstance(arguments[0], str) and sys.argv[1] in arguments[0]
sys.addaudithook(count)
from perfdoctor.cli import app
stdout, sys.stdout = sys.stdout, open("/dev/null", "w")
try:
    app.start(sys.argv[2:])
except SystemExit:
    pass
print(opened, file=stdout)
"""


def made(folder: Path) -> Path:
    """A run of the sample script, judged."""
    script = ROOT / "sample_scripts" / "too_few_workers.py"
    command = [*PERFDOCTOR, "run", "--out", str(folder), str(script)]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return next(path.parent for path in folder.glob("*/run.json"))


def multiplied(run: Path, folder: Path, count: int) -> None:
    """Put the run into the folder so often, the newest one last."""
    about = json.loads((run / "run.json").read_text())
    for number in range(count):
        started_s = about["started_epoch_s"] - (count - 1 - number) * EVERY_S
        name = f"{time.strftime('%Y%m%d-%H%M%S', time.localtime(started_s))}-{number}"
        copy = folder / name
        copy.mkdir(parents=True)
        for file in run.iterdir():
            if file.name != "run.json":
                os.link(file, copy / file.name)
        (copy / "run.json").write_text(json.dumps(about | {"id": name, "started_epoch_s": started_s}))
        os.utime(copy / "run.json", (started_s, started_s))


def cpu_s(words: list[str], folder: Path, rounds: int) -> float:
    """CPU seconds of a verb over the folder: the median over processes."""
    used = []
    for _ in range(rounds):
        before = os.times()
        subprocess.run(
            [*PERFDOCTOR, *words, "--out", str(folder)], cwd=ROOT, check=True, stdout=subprocess.DEVNULL
        )
        after = os.times()
        used.append(
            after.children_user + after.children_system - before.children_user - before.children_system
        )
    return statistics.median(used)


def opened(words: list[str], folder: Path) -> int:
    """How many files of the folder a verb opens."""
    command = [sys.executable, "-c", OPENED, str(folder), *words, "--out", str(folder)]
    ended = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return int(ended.stdout)


def rows(run: Path, count: int, rounds: int, within: Path) -> list[tuple[str, ...]]:
    """(verb, runs in the folder, files opened, CPU seconds, promised), for one run and for many."""
    found = []
    for runs in (1, count):
        folder = within / f"{runs}-runs"
        multiplied(run, folder, runs)
        for verb in VERBS:
            cells = (f"{opened([verb], folder):,}", f"{cpu_s([verb], folder, rounds):.2f}", f"{PROMISED_S}")
            found.append((f"`perfdoctor {verb}`", f"{runs:,}", *cells))
    return found


def main() -> None:
    """Measure, print, and write the page's part if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", nargs="?", type=Path)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="perfdoctor-bench-") as folder:
        run = options.run or made(Path(folder) / "one")
        found = rows(run.resolve(), options.runs, options.rounds, Path(folder))
    for row in found:
        Console().print("  ".join(f"{cell:22}" for cell in row), highlight=False)
    if options.write:
        head, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        where = f"on {platform.machine()}, Python {platform.python_version()}"
        said = f"Written by `python bench/many_runs.py --write`, {where}; medians."
        heads = ["| verb | runs | files of theirs opened | CPU s | promised |", "|---|---|---|---|---|"]
        part = "\n".join([BEGIN, said, "", *heads, *(f"| {' | '.join(row)} |" for row in found), END])
        PAGE.write_text(f"{head}{part}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    main()

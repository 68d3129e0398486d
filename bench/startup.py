"""What verbs cost that have little to do, most of it to load what they need: CPU seconds and instructions.

    python bench/startup.py [RUN] [--against CHECKOUT] [--rounds 15] [--write]

RUN, or else a run of `sample_scripts/too_few_workers.py` that is made for this, is reported. The trace that
is read is a small one of the tests': a window over four steps of a network on the CPU. Processes of this
checkout and of CHECKOUT take turns; seconds are medians. Instructions are counted by callgrind where
valgrind is installed.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from many_runs import made
from rich.console import Console

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "overhead.md"
TRACE = ROOT / "tests" / "data" / "mlp.plain.json.gz"
BEGIN, END = "<!-- start-up: begin -->", "<!-- start-up: end -->"
COLLECTED = re.compile(r"Collected : (\d+)")
AIMS_S = {"--help": 0.1, "report": 0.5, "trace": 0.4}
COUNT_MODULES = """
import sys
from perfdoctor.cli import app
stdout, sys.stdout = sys.stdout, open("/dev/null", "w")
try:
    app.start(sys.argv[1:])
except SystemExit:
    pass
print(len(sys.modules), sum(name.startswith("perfdoctor.") for name in sys.modules), file=stdout)
"""
HEADINGS = ["verb", "CPU s", "aim", "million instructions", "modules", "of them ours"]


def commands(run: Path) -> dict[str, list[str]]:
    """What follows `perfdoctor`, of each verb."""
    return {"--help": ["--help"], "report": ["report", str(run)], "trace": ["trace", str(TRACE)]}


def environment(checkout: Path) -> dict[str, str]:
    """With the package of that checkout, and the same order of sets in each process."""
    return {**os.environ, "PYTHONPATH": str(checkout), "PYTHONHASHSEED": "0"}


def cpu_s(words: list[str], checkout: Path) -> float:
    """CPU seconds of one process."""
    before = os.times()
    subprocess.run(
        [sys.executable, "-m", "perfdoctor", *words],
        cwd=checkout, env=environment(checkout), check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def instructions(words: list[str], checkout: Path) -> int | None:
    """Instructions of one process, or None without valgrind."""
    if shutil.which("valgrind") is None:
        return None
    counted = [
        "valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null",
        sys.executable, "-m", "perfdoctor", *words,
    ]  # fmt: skip
    ended = subprocess.run(
        counted, cwd=checkout, env=environment(checkout), check=True, capture_output=True, text=True
    )
    found = COLLECTED.search(ended.stderr)
    assert found, ended.stderr
    return int(found[1])


def modules(words: list[str], checkout: Path) -> list[str]:
    """How many modules a process loads, and how many of them are perfdoctor's."""
    command = [sys.executable, "-c", COUNT_MODULES, *words]
    ended = subprocess.run(
        command, cwd=checkout, env=environment(checkout), check=True, capture_output=True, text=True
    )
    return ended.stdout.split()


def rows(run: Path, checkouts: list[Path], rounds: int) -> list[list[str]]:
    """One of each verb and checkout, in this order."""
    found = []
    for verb, words in commands(run).items():
        turns = [[cpu_s(words, checkout) for checkout in checkouts] for _ in range(rounds)]
        for checkout, used_s in zip(checkouts, zip(*turns, strict=True), strict=True):
            counted = instructions(words, checkout)
            shown = "-" if counted is None else f"{counted / 1e6:,.0f}"
            cells = [f"{statistics.median(used_s):.3f}", f"{AIMS_S[verb]}", shown, *modules(words, checkout)]
            found.append([f"`perfdoctor {verb}`", *cells])
    return found


def main() -> None:
    """Measure, print, and write the page's part if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", nargs="?", type=Path)
    parser.add_argument("--against", type=Path, help="another checkout, measured in turns with this one")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--write", action="store_true", help=f"write into {PAGE.relative_to(ROOT)}")
    options = parser.parse_args()
    checkouts = [ROOT] if options.against is None else [options.against.resolve(), ROOT]
    with tempfile.TemporaryDirectory(prefix="perfdoctor-bench-") as folder:
        run = Path(shutil.copytree(options.run or made(Path(folder) / "made"), Path(folder) / "run"))
        found = rows(run, checkouts, options.rounds)
    for row in [HEADINGS, *found]:
        Console(width=120).print("  ".join(f"{cell:22}" for cell in row), highlight=False)
    if options.write:
        head, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        where = f"{platform.machine()}, Python {platform.python_version()}"
        said = f"Written by `python bench/startup.py --write`; {where}; medians of {options.rounds}."
        table = [f"| {' | '.join(HEADINGS)} |", "|" + "---|" * len(HEADINGS)]
        table += [f"| {' | '.join(row)} |" for row in found[len(checkouts) - 1 :: len(checkouts)]]
        part = "\n".join([BEGIN, said, "", *table, END])
        PAGE.write_text(f"{head}{part}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    main()

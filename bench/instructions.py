"""What watching adds to a step, in instructions: a figure that other work on the machine leaves alone.

    python bench/instructions.py [--loads tiny,mlp] [--steps 64] [--rounds 2] [--write]

Needs valgrind. One process makes blocks of steps, bare and watched in turn (bench/loads/in_blocks.py), and
callgrind counts the instructions of each block. Rounds differ by less than one percent of what is added.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
ROOT = HERE.parent
PAGE = ROOT / "docs" / "overhead.md"
BEGIN, END = "<!-- instructions: begin -->", "<!-- instructions: end -->"
MARK = "getsid"  # a function of the C library that nothing else calls
COUNTED = re.compile(r"^(?:summary|totals): (\d+)", re.MULTILINE)
LOADS = {
    "tiny": "one layer, one sample, a loader without workers",
    "mlp": "nine layers, from memory",
    "deep": "61 modules, from memory",
    "loader": "one layer, two loader workers",
    "accumulation": "one layer, four backward passes a step",
    "gan": "two models, two updates a step",
    "validation": "one layer, a pass in eval mode after each step",
    "lbfgs": "one layer, an optimizer with a closure",
    "scaler": "one layer, a GradScaler",
    "rollout": "a policy of three layers plays 16 moves without gradients",
    "eval_rollout": "the same in eval mode",
}
HEADINGS = ["load", "instructions a step, bare", "added", "rounds differ by"]

Blocks = dict[tuple[str, str], list[float]]  # (load, way) -> instructions a step, of each round


def measure(loads: list[str], steps: int, rounds: int) -> Blocks:
    """Instructions per step of each block."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            "valgrind", "--tool=callgrind", "--instr-atstart=no", f"--dump-before={MARK}",
            f"--callgrind-out-file={folder}/out.%p",
            sys.executable, str(HERE / "loads" / "in_blocks.py"),
            "--loads", ",".join(loads), "--steps", str(steps), "--rounds", str(rounds),
        ]  # fmt: skip
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0"}
        ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        if ended.returncode:
            raise SystemExit(f"{' '.join(command)} ended with status {ended.returncode}:\n{ended.stderr}")
        blocks: Blocks = {}
        for number, line in enumerate(ended.stdout.splitlines()):
            block = json.loads(line)
            # Dumps are numbered from 1; the mark before a block ends an odd one.
            dump = Path(folder) / f"out.{block['pid']}.{2 * number + 2}"
            counted = COUNTED.search(dump.read_text())
            assert counted, f"no total in {dump}"
            blocks.setdefault((block["load"], block["way"]), []).append(int(counted[1]) / steps)
    return blocks


def rows(blocks: Blocks) -> list[list[str]]:
    """One line per load."""
    table = []
    for load in dict.fromkeys(load for load, _ in blocks):
        bare, watched = blocks[load, "bare"], blocks[load, "watched"]
        added = [after - before for before, after in zip(bare, watched, strict=True)]
        table.append([
            f"{load}: {LOADS[load]}",
            f"{statistics.median(bare):,.0f}",
            f"{statistics.median(added):+,.0f}",
            f"{max(added) - min(added):,.0f}",
        ])  # fmt: skip
    return table


def page(table: list[list[str]], steps: int, rounds: int) -> str:
    """The part of the page between the marks."""
    import torch

    machine = f"{platform.machine()}, Python {platform.python_version()}, torch {torch.__version__}"
    lines = [
        f"Written by `python bench/instructions.py --write`; {machine}; {rounds} rounds of {steps} steps.",
        "",
        "| " + " | ".join(HEADINGS) + " |",
        "|" + "---|" * len(HEADINGS),
        *("| " + " | ".join(row) + " |" for row in table),
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure, print, and write the page's part if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--loads", default=",".join(LOADS), help="which loads, with commas between")
    parser.add_argument("--steps", type=int, default=64, help="of each block")
    parser.add_argument("--rounds", type=int, default=2, help="of a bare and a watched block")
    parser.add_argument("--write", action="store_true", help=f"write into {PAGE.relative_to(ROOT)}")
    args = parser.parse_args()
    table = rows(measure(args.loads.split(","), args.steps, args.rounds))
    shown = Table(*HEADINGS, title="What watching adds to a step")
    for row in table:
        shown.add_row(*row)
    Console().print(shown)
    if args.write:
        head, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
        part = page(table, args.steps, args.rounds)
        PAGE.write_text(f"{head}{BEGIN}\n{part}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    main()

"""What the live view costs: CPU seconds a minute of perfdoctor's own process, after its start-up.

    python bench/live.py [--seconds 60] [--ranks 2]

A training of so many ranks, about 20 ms a step each, is watched twice: by `perfdoctor run -q` with
`perfdoctor live` beside it, at 80 and at 200 columns, and by `perfdoctor run -q --live`. What the latter
spends more than `run -q` is the view. It opens files of the run and touches no process of the script. Each
figure is of one pass, its share that of one core.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pexpect
import psutil

ROOT = Path(__file__).parent.parent
TRAIN = """
import os, time, torch
model = torch.nn.Linear(64, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
while not os.path.exists("stop"):
    optimizer.zero_grad()
    model(torch.ones(16, 64)).sum().backward()
    optimizer.step()
    time.sleep(0.018)
"""
RANKS = """
import os, subprocess, sys
told = [{"RANK": str(rank), "WORLD_SIZE": sys.argv[1]} for rank in range(int(sys.argv[1]))]
each = [subprocess.Popen([sys.executable, "train.py"], env={**os.environ, **own}) for own in told]
for process in each:
    process.wait()
"""
PERFDOCTOR = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from perfdoctor.cli import main; main()"
START_UP_S = 35.0  # imports, and the reports that are made early


def main() -> None:
    """Print a line for each way to look."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--ranks", type=int, default=2)
    given = parser.parse_args()
    for label, words, viewers in (
        ("run -q", (), (80, 200)),
        ("run -q --live, 80 columns", ("--live",), ()),
    ):
        with tempfile.TemporaryDirectory() as name, training(Path(name), given.ranks, words) as watch:
            views = [terminal(Path(name), ("live",), columns) for columns in viewers]
            named = [
                (label, watch),
                *((f"live, {w} columns", v) for w, v in zip(viewers, views, strict=True)),
            ]
            drain([one for _, one in named], START_UP_S)
            begun = {told: psutil.Process(one.pid).cpu_times() for told, one in named}
            drain([one for _, one in named], given.seconds)
            for told, one in named:
                spent_s = cpu_s(psutil.Process(one.pid).cpu_times()) - cpu_s(begun[told])
                minute_s = spent_s / given.seconds * 60
                early = f"start-up {cpu_s(begun[told]):.1f} s"
                print(f"{told}: {minute_s:.2f} s of CPU a minute, {minute_s / 60:.2%} of a core; {early}")
            for view in views:
                view.send("q")
            (Path(name) / "stop").touch()
            drain([watch], 20.0)


def cpu_s(times: object) -> float:
    """Of a process alone, without its children."""
    return float(times.user + times.system)  # type: ignore[attr-defined]


@contextmanager
def training(folder: Path, ranks: int, words: tuple[str, ...]) -> Iterator[pexpect.spawn[bytes]]:
    """The ranks at work below `perfdoctor run`."""
    (folder / "train.py").write_text(TRAIN)
    (folder / "ranks.py").write_text(RANKS)
    watch = terminal(folder, ("run", "-q", *words, "ranks.py", str(ranks)), 80)
    try:
        time.sleep(8)
        yield watch
    finally:
        watch.close(force=True)


def terminal(folder: Path, words: tuple[str, ...], columns: int) -> pexpect.spawn[bytes]:
    """A command of ours on a terminal of its own."""
    environ = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")}
    return pexpect.spawn(
        sys.executable,
        ["-c", PERFDOCTOR, *words],
        cwd=str(folder),
        env={**environ, "TERM": "xterm-256color"},
        dimensions=(50, columns),
    )


def drain(terminals: list[pexpect.spawn[bytes]], seconds: float) -> None:
    """Read what is drawn, as a terminal does, for so long."""
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        for one in terminals:
            try:
                one.read_nonblocking(65536, timeout=0.05)
            except pexpect.TIMEOUT:
                pass
            except pexpect.EOF:
                return
        time.sleep(0.05)


if __name__ == "__main__":
    main()

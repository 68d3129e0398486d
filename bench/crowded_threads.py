"""What fewer threads bring beside other programs, held against what the finding would promise.

    python bench/crowded_threads.py [--only lstm] [--beside none] [--save FILE] [--from FILE] [--write]

Trains small networks with as many threads as there are cores and with one, in turns, beside other load: none,
a process that computes now and then, one or more that never pause, another training with as many threads.
Each is a session of its own, as programs of other people are. `--from` judges kept figures again.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "variability.md"
BEGIN, END = "<!-- crowded threads: begin -->", "<!-- crowded threads: end -->"
GO = "go\n"
STARTING_S = 4.0  # for another training to import torch
WARM_UP = 3
ROUNDS = 3
SPINS = "while True: pass"
NOW_AND_THEN = """
import time
while True:
    end = time.perf_counter() + 0.02
    while time.perf_counter() < end: pass
    time.sleep(0.08)
"""  # 0.2 cores
TEAM = "team"
RIVALS = {"none": [], "0.2 busy": [NOW_AND_THEN], "1 busy": [SPINS], "2 busy": [SPINS] * 2, TEAM: [TEAM]}
HEADINGS = ("network", "beside", "threads", "step, ms", "with one, ms", "promised", "measured", "held")


@dataclass
class Turn:
    """A stretch of training with so many threads. Seconds of CPU, of all threads and of the first one."""

    network: str
    beside: str
    threads: int
    modules: int
    steps: int
    computing_s: float  # forward and backward
    seconds: float
    ran_s: float
    lacked_s: float  # ready, but without a core
    first_ran_s: float
    first_lacked_s: float
    others_s: float  # of the machine's other programs


def networks() -> dict[str, Callable[[], tuple[Any, Any]]]:
    """Each with a batch, by name."""
    import torch
    from torch import nn

    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cells, self.head = nn.LSTM(64, 128, batch_first=True), nn.Linear(128, 1)

        def forward(self, x: Any) -> Any:
            return self.head(self.cells(x)[0][:, -1])

    def linear(width: int, batch: int, depth: int) -> tuple[Any, Any]:
        layers = [layer for _ in range(depth) for layer in (nn.Linear(width, width), nn.ReLU())]
        return nn.Sequential(*layers, nn.Linear(width, 1)), torch.randn(batch, width)

    def convolutions(channels: int, size: int, batch: int) -> tuple[Any, Any]:
        layers: list[Any] = []
        for before in (3, channels):
            layers += [nn.Conv2d(before, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU()]
        head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1))
        return nn.Sequential(*layers, *head), torch.randn(batch, 3, size, size)

    def attention(width: int, length: int, batch: int) -> tuple[Any, Any]:
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True)
        layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        return nn.Sequential(layers, nn.Linear(width, 1)), torch.randn(batch, length, width)

    return {
        "linear-64": lambda: linear(64, 32, 4),
        "linear-256": lambda: linear(256, 64, 4),
        "linear-1024": lambda: linear(1024, 128, 3),
        "linear-2048": lambda: linear(2048, 256, 2),
        "conv-16": lambda: convolutions(16, 16, 32),
        "conv-64": lambda: convolutions(64, 48, 32),
        "lstm": lambda: (Recurrent(), torch.randn(64, 50, 64)),
        "attention-64": lambda: attention(64, 32, 16),
        "attention-256": lambda: attention(256, 128, 16),
    }


# ---------------------------------------------------------------- the process that trains


def training(network: str) -> tuple[Callable[[], float], int]:
    """A step, which gives the seconds of its forward and backward pass, and the number of modules."""
    import torch

    model, batch = networks()[network]()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step() -> float:
        optimizer.zero_grad()
        begin_s = time.perf_counter()
        model(batch).square().mean().backward()
        computing_s = time.perf_counter() - begin_s
        optimizer.step()
        return computing_s

    return step, sum(1 for _ in model.modules())


def clocks() -> dict[str, float]:
    """What the kernel has counted so far: of this process's threads, and of the whole machine."""
    ran, lacked, own = 0, 0, (0, 0)
    for task in os.listdir("/proc/self/task"):
        try:
            of_task = Path(f"/proc/self/task/{task}/schedstat").read_text().split()
        except OSError:
            continue
        ran, lacked = ran + int(of_task[0]), lacked + int(of_task[1])
        if int(task) == os.getpid():
            own = int(of_task[0]), int(of_task[1])
    user, nice, system, _, _, irq, soft = map(int, Path("/proc/stat").read_text().split()[1:8])
    busy_s = (user + nice + system + irq + soft) / os.sysconf("SC_CLK_TCK")
    return {
        "seconds": time.perf_counter(),
        "ran_s": ran / 1e9,
        "lacked_s": lacked / 1e9,
        "first_ran_s": own[0] / 1e9,
        "first_lacked_s": own[1] / 1e9,
        "others_s": busy_s - ran / 1e9,
    }


def train(network: str, beside: str, counts: list[int], seconds: float) -> None:
    """Be the process that trains: wait for the word, and print a line for each turn."""
    import torch

    step, modules = training(network)
    for count in counts:
        torch.set_num_threads(count)
        step()
    print("ready", flush=True)
    sys.stdin.readline()
    for count in counts * ROUNDS:
        torch.set_num_threads(count)
        for _ in range(WARM_UP):
            step()
        begin, steps, computing_s = clocks(), 0, 0.0
        while time.perf_counter() - begin["seconds"] < seconds:
            computing_s += step()
            steps += 1
        end = clocks()
        grown = {name: end[name] - begin[name] for name in begin}
        turn = Turn(network, beside, count, modules, steps, computing_s, **grown)
        print(json.dumps(asdict(turn)), flush=True)


def train_beside(network: str, threads: int) -> None:
    """Be another training that never ends."""
    import torch

    torch.set_num_threads(threads)
    step, _ = training(network)
    while True:
        step()


# ---------------------------------------------------------------- the bench


def turns(network: str, beside: str, counts: list[int], seconds: float) -> list[Turn]:
    """Have a process train beside others."""
    program = [sys.executable, __file__]
    command = [*program, "--train", json.dumps([network, beside, counts, seconds])]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    rivals = []
    for code in RIVALS[beside]:
        line = [*program, "--rival", json.dumps([network, counts[0]])]
        words = line if code == TEAM else [sys.executable, "-S", "-c", code]
        rivals.append(subprocess.Popen(words, start_new_session=True))
    try:
        if beside == TEAM:
            time.sleep(STARTING_S)
        told, _ = process.communicate(GO)
    finally:
        for rival in rivals:
            rival.kill()
            rival.wait()
    return [Turn(**json.loads(line)) for line in told.splitlines()]


def total(of_turns: Iterable[Turn]) -> Turn:
    """Several turns as one."""
    several = list(of_turns)
    first = several[0]
    summed = {
        name: sum(getattr(turn, name) for turn in several) for name in ("steps", "computing_s", *clocks())
    }
    return Turn(first.network, first.beside, first.threads, first.modules, **summed)


def row(many: Turn, one: Turn, cores: float) -> list[str]:
    """What was measured with as many threads as cores, what is promised of one, and what came of it."""
    from perfdoctor.facts.predict.thread_team import ThreadTeam

    whole_s, promised = many.seconds, "-"
    team = ThreadTeam(
        threads=many.threads,
        cores=cores,
        rivals=many.others_s / whole_s,
        ran=many.ran_s / whole_s,
        lacked=many.lacked_s / whole_s,
        first_ran=many.first_ran_s / whole_s,
        first_lacked=many.first_lacked_s / whole_s,
    )
    measured, held = many.seconds / many.steps / (one.seconds / one.steps), ""
    if team.is_held_up:
        low, likely, high = team.speedups(1)
        promised = f"{low:.2f} / {likely:.2f} / {high:.2f}"
        held = "yes" if low <= measured <= high else "no"
    each = [f"{turn.seconds / turn.steps * 1e3:.2f}" for turn in (many, one)]
    return [many.network, many.beside, str(many.threads), *each, promised, f"{measured:.2f}", held]


def rows(found: list[Turn], cores: float) -> Iterator[list[str]]:
    """A line for each network and load."""
    for network, beside in dict.fromkeys((turn.network, turn.beside) for turn in found):
        here = [turn for turn in found if (turn.network, turn.beside) == (network, beside)]
        one = total(turn for turn in here if turn.threads == 1)
        for count in dict.fromkeys(turn.threads for turn in here if turn.threads > 1):
            yield row(total(turn for turn in here if turn.threads == count), one, cores)


def write(lines: list[list[str]], cores: float) -> None:
    """Put the table between the marks of its page."""
    import torch

    machine = f"{cores:g} cores, Python {platform.python_version()}, torch {torch.__version__}"
    table = [
        f"Written by `python bench/crowded_threads.py --write`; {machine}, {time.strftime('%Y-%m-%d')}.",
        "",
        f"| {' | '.join(HEADINGS)} |",
        "|" + "---|" * len(HEADINGS),
        *(f"| {' | '.join(line)} |" for line in lines),
    ]
    page = PAGE.read_text(encoding="utf-8")
    before, after = page.split(BEGIN)[0], page.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}\n" + "\n".join(table) + f"\n{END}{after}", encoding="utf-8")


def main() -> None:
    """Measure or read, print, and write the table if asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", metavar="A,B", help="which networks, with commas between; all otherwise")
    parser.add_argument("--beside", metavar="A,B", help=f"which loads: {', '.join(RIVALS)}; all otherwise")
    parser.add_argument("--seconds", type=float, default=1.5, help="of each turn")
    parser.add_argument("--save", metavar="FILE", type=Path, help="keep the figures, a line of JSON a turn")
    parser.add_argument("--from", dest="kept", metavar="FILE", type=Path, help="judge these figures again")
    parser.add_argument("--write", action="store_true", help=f"write into {PAGE.relative_to(ROOT)}")
    args = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    found: list[Turn] = []
    if args.kept is not None:
        found = [Turn(**json.loads(line)) for line in args.kept.read_text().splitlines()]
    else:
        for network in args.only.split(",") if args.only else networks():
            for beside in args.beside.split(",") if args.beside else RIVALS:
                new = turns(network, beside, [cores, 1], args.seconds)
                found += new
                if args.save is not None:
                    with args.save.open("a") as file:
                        file.writelines(json.dumps(asdict(turn)) + "\n" for turn in new)
                print("; ".join(next(rows(new, cores))), flush=True)
    lines = list(rows(found, cores))
    if args.kept is not None:
        print("\n".join("; ".join(line) for line in lines))
    judged = [line[-1] for line in lines if line[-1]]
    print(f"{judged.count('yes')} of {len(judged)} gains lie within what is promised")
    if args.write:
        write(lines, cores)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--train"]:
        train(*json.loads(sys.argv[2]))
    elif sys.argv[1:2] == ["--rival"]:
        train_beside(*json.loads(sys.argv[2]))
    else:
        main()

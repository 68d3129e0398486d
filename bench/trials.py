"""How often a trial finds a difference where there is none, and how small a difference it finds.

    python bench/trials.py [--scripts healthy_lstm,...] [--executions 24] [--trials 2000] [--keep FILE]
    python bench/trials.py --from FILE [--write]
    python bench/trials.py --turns [--trials 5000] [--write]
    python bench/trials.py --control [--trials 2000] [--write] [.perfdoctor/trials/TRIAL ...]
    python bench/trials.py --real 20 [--scripts healthy_lstm,...] [--seconds 60] [--write]

Scripts are executed again and again as they are. Trials are then played with what was recorded: rounds are
taken from executions that followed each other, so that what slows a machine for a while slows some of them
together. Made-up noise shows what recorded noise may not hold. `--real` makes real trials of a script against
itself, by the same code as `perfdoctor try`. `--control` shows what came of taking the phases that a tweak is
not made for as a control of the machine's speed, in played trials and in kept ones.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

from perfdoctor import trials
from perfdoctor.model.note import Remark
from perfdoctor.model.trial import LEAST_ROUNDS, ORIGINAL, Outcome
from perfdoctor.runs import directory
from perfdoctor.runs import records as recorded
from perfdoctor.trials import Request, measure, trial_file
from perfdoctor.trials.statistics import speedup
from perfdoctor.trials.statistics.verdict import Rounds

ROOT = Path(__file__).parents[1]
SCRIPTS = ROOT / "sample_scripts"
PAGE = ROOT / "docs" / "variability.md"
# The parts of the page that this program owns.
PLAYED, IN_TURNS, REAL = "trials played", "turns played", "real trials"
CHOSEN = ("healthy_lstm", "healthy_workers", "too_few_workers")
STEPS, WARM_UP, MEASURED = 60, 10, 30  # of an execution; played trials measure from any step past warm-up on
PLANS = (3, 5, 8)  # rounds
PLANNED = 5  # as `perfdoctor try` plans, for what is shown of one plan only
TRUE = (1.02, 1.05, 1.1, 1.3)  # speedups to be found
TURNS, PLANNED_STARTS = 5, 9  # turns between fresh starts, as most plans have them
STARTS_OFF = (0.0, 0.015, 0.03, 0.05)  # fresh starts of one script, standard deviation
TIMEOUT_S = 300
CONTROL = "control tried"  # one more part of the page
TOUCHED, OWN = 0.4, 0.02  # share of a step that a tweak is made for; how far phases scatter on their own
NOTICED = 0.03  # share of a step: shorter phases are noise
MOVED = (0.0, 0.02, 0.05, 0.1)  # by how much the other phases get faster with it, at the cost of that share

Floats = npt.NDArray[np.float64]
Random = np.random.Generator
Noise = Callable[[Random, int], Floats]  # -> seconds per step of so many executions that follow each other


# ---------------------------------------------------------------- noise


def even(random: Random, count: int) -> Floats:
    """Each execution is off by 3 %."""
    return random.normal(0.0, 0.03, count)


def rare(random: Random, count: int) -> Floats:
    """Student's t with two degrees of freedom: now and then an execution takes a multiple."""
    return 0.03 * np.abs(random.standard_t(2, count))


def lasting(random: Random, count: int) -> Floats:
    """What slows an execution passes slowly."""
    noise = random.normal(0.0, 0.03, count)
    for index in range(1, count):
        noise[index] += 0.9 * noise[index - 1]
    return noise


def drifting(random: Random, count: int) -> Floats:
    """A machine that gets warm: each execution is 1 % slower than the one before."""
    return 0.01 * np.arange(count) + random.normal(0.0, 0.01, count)


def bursts(random: Random, count: int) -> Floats:
    """Another program takes a third of the machine for about three executions, and comes back."""
    busy, noise = False, random.normal(0.0, 0.01, count)
    for index in range(count):
        busy = random.random() < (2 / 3 if busy else 0.2)
        noise[index] += 0.3 * busy
    return noise


def two_speeds(random: Random, count: int) -> Floats:
    """Where a process lies in memory makes it 5 % slower, or not, for all its life."""
    return 0.05 * random.integers(0, 2, count) + random.normal(0.0, 0.005, count)


MADE_UP: Mapping[str, Noise] = {
    "each execution off by 3 %": even,
    "heavy tails": rare,
    "slowness that lasts": lasting,
    "a drift": drifting,
    "bursts of other work": bursts,
    "two speeds by layout": two_speeds,
}


def record(script: str, executions: int, console: Console) -> list[list[float]]:
    """Seconds per step of each execution, measured from each possible first step."""
    found = []
    for number in range(executions):
        with tempfile.TemporaryDirectory() as out:
            watch = [sys.executable, "-m", "perfdoctor", "run", "-q", "--no-profiler", "--no-stacks"]
            bounds = ["--steps", str(STEPS), "--stop", "--out", out]
            subprocess.run(
                [*watch, *bounds, str(SCRIPTS / f"{script}.py")],
                cwd=SCRIPTS,
                check=True,
                capture_output=True,
                timeout=TIMEOUT_S,
            )
            records = recorded.read(directory.latest(Path(out)))
        firsts = range(WARM_UP, STEPS - MEASURED + 1)
        taken = [measure.execution(records, number, first, MEASURED).step_s for first in firsts]
        found.append([step_s for step_s in taken if step_s is not None])
        console.print(f"{script} {number + 1}/{executions}: {found[-1][0] * 1e3:.2f} ms a step")
    return found


def replayed(executions: Sequence[Sequence[float]]) -> Noise:
    """Executions in the order in which they were recorded, from a random one and a random step on.

    Of two neighbours it is drawn which comes first: some dozens of executions hold few orders by themselves.
    """
    firsts = min(map(len, executions))
    logs = np.log([list(each[:firsts]) for each in executions])

    def noise(random: Random, count: int) -> Floats:
        at, first = random.integers(0, len(logs) - count + 1), random.integers(0, firsts)
        pairs = logs[at : at + count, first].reshape(-1, 2)
        return np.asarray(random.permuted(pairs, axis=1).ravel())

    return noise


# ---------------------------------------------------------------- played trials


@dataclass(frozen=True)
class Played:
    """How trials under one noise ended."""

    outcomes: tuple[Outcome, ...]
    rounds: tuple[int, ...]

    def share(self, *outcomes: Outcome) -> float:
        """How many of the trials ended so."""
        return sum(outcome in outcomes for outcome in self.outcomes) / len(self.outcomes)

    @property
    def alarms(self) -> float:
        """How many saw a difference."""
        return self.share(Outcome.FASTER, Outcome.SLOWER)


def play(noise: Noise, count: int, planned: int, true: float = 1.0, corrected: bool = True) -> Played:
    """Trials of a variant that is `true` times as fast; uncorrected, each look is taken for the only one."""
    random = np.random.default_rng(planned)
    return _played([_play(noise(random, 2 * planned), planned, true, corrected) for _ in range(count)])


def _played(ends: Sequence[tuple[Outcome, int]]) -> Played:
    return Played(tuple(outcome for outcome, _ in ends), tuple(rounds for _, rounds in ends))


def _play(logs: Floats, planned: int, true: float, corrected: bool) -> tuple[Outcome, int]:
    seconds = np.exp(logs).reshape(planned, 2)
    seconds[1::2] = seconds[1::2, ::-1].copy()  # every other round in the opposite order
    return _end([[(float(before_s), float(after_s) / true)] for before_s, after_s in seconds], corrected)


def _end(rounds: Sequence[speedup.Round], corrected: bool = True) -> tuple[Outcome, int]:
    """How a trial of these rounds ends, and after how many of them."""
    for count in range(LEAST_ROUNDS, len(rounds) + 1):
        plan = len(rounds) if corrected else count
        found = speedup.compare(rounds[:count], plan)
        over = not corrected and found.outcome is not Outcome.NO_DIFFERENCE
        if over or count == len(rounds) or (corrected and speedup.enough(rounds[:count], plan)):
            return found.outcome, count
    raise ValueError(f"{len(rounds)} rounds are too few")


def play_turns(noise: Noise, count: int, starts: float, true: float = 1.0) -> Played:
    """Trials of trainings that take turns; each fresh start of one is off by `starts` for all its turns."""
    random = np.random.default_rng(PLANNED_STARTS)
    return _played([_end(list(_starts(random, noise, starts, true))) for _ in range(count)])


def _starts(random: Random, noise: Noise, starts: float, true: float) -> Iterator[speedup.Round]:
    logs = noise(random, 2 * TURNS * PLANNED_STARTS).reshape(PLANNED_STARTS, TURNS, 2)
    for turns in logs:
        turns[1::2] = turns[1::2, ::-1].copy()  # every other pair in the opposite order
        seconds = np.exp(turns + random.normal(0.0, starts, 2))
        yield [(float(original_s), float(variant_s) / true) for original_s, variant_s in seconds]


@dataclass(frozen=True)
class Controlled:
    """A trial by itself, and with controls of the machine's speed in its turns."""

    plain: list[speedup.Round]
    phases: list[speedup.Round]  # the phases that the tweak is not made for
    fixed: list[speedup.Round]  # a fixed computation before and after each turn


def _controlled(random: Random, noise: Noise, moved: float) -> Controlled:
    """A variant that changes nothing about the step, but by how much of it the other phases take."""

    def paired(logs: Floats) -> Floats:
        pairs = logs.reshape(PLANNED_STARTS, TURNS, 2).copy()
        pairs[:, 1::2] = pairs[:, 1::2, ::-1].copy()  # every other pair in the opposite order
        return pairs

    slow = noise(random, 2 * TURNS * PLANNED_STARTS)
    around = np.pad(slow, 1, mode="edge")
    borders = paired((around[:-2] + 2.0 * slow + around[2:]) / 4.0 + random.normal(0.0, OWN, len(slow)))
    starts = random.normal(0.0, STARTS_OFF[1], (2, PLANNED_STARTS, 1, 2))
    own = random.normal(0.0, OWN, (2, PLANNED_STARTS, TURNS, 2))
    touched, others = np.exp(paired(slow) + starts + own)
    left = np.array([1.0, 1.0 / (1.0 + moved)]) * (1.0 - TOUCHED)
    seconds = touched * (1.0 - left) + others * left
    phases = np.log(others * left)
    return Controlled(
        _rounds(seconds),
        _adjusted(seconds, phases[..., 0] - phases[..., 1]),
        _adjusted(seconds, borders[..., 0] - borders[..., 1]),
    )


def _adjusted(seconds: Floats, control: Floats) -> list[speedup.Round]:
    """The pairs of turns without what goes with the control, by the slope within starts."""
    ratio = np.log(seconds[..., 0] / seconds[..., 1])
    apart, within = (each - each.mean(axis=1, keepdims=True) for each in (ratio, control))
    slope = min(1.0, max(0.0, float((within * apart).sum() / (within**2).sum())))
    return _rounds(seconds * np.exp(np.stack([-slope * control, np.zeros_like(control)], axis=-1)))


def _rounds(seconds: Floats) -> list[speedup.Round]:
    return [[(original_s, variant_s) for original_s, variant_s in turns] for turns in seconds.tolist()]


def _half_width(rounds: Sequence[speedup.Round]) -> float:
    """Of the interval after all rounds, relative."""
    gain = speedup.speedup(rounds, len(rounds))
    return gain.high / gain.likely - 1.0


def control_rows(noises: Mapping[str, Noise], count: int) -> Iterator[list[str]]:
    """A line for each noise of turns: what a control narrows, and how often it is wrong."""
    yield [
        "noise of turns",
        "half width",
        "by other phases",
        "by a fixed computation",
        "false alarms",
        *(f"by other phases, which get {moved:.0%} faster" for moved in MOVED),
    ]
    for name, noise in noises.items():
        random = np.random.default_rng(PLANNED_STARTS)
        tried = {moved: [_controlled(random, noise, moved) for _ in range(count)] for moved in MOVED}
        still = tried[MOVED[0]]
        yield [
            name,
            *(
                f"{np.median([_half_width(rounds) for rounds in kind]):.1%}"
                for kind in zip(*((each.plain, each.phases, each.fixed) for each in still), strict=True)
            ),
            f"{_played([_end(each.plain) for each in still]).alarms:.1%}",
            *(f"{_played([_end(each.phases) for each in tried[moved]]).alarms:.1%}" for moved in MOVED),
        ]


def phase_rows(kept: Sequence[Path]) -> Iterator[list[str]]:
    """A line for each phase of each kept trial: how much faster it became, and what it explains of starts."""
    yield [
        "trial",
        "phase",
        "share of a step",
        "times as fast",
        "starts scatter by",
        "steps divided by the phase",
    ]
    for path in kept:
        trial = trial_file.read(path)
        rounds = Rounds.of(trial.originals, trial.verdicts[0].executions).both
        name = f"{Path(trial.command[-1]).name} {trial.verdicts[0].variant.name}"
        steps = np.log([[each.step_s or math.nan for each in both] for both in rounds])
        whole = steps[:, 0] - steps[:, 1]
        yield [name, "all", "100%", _times(whole), f"{whole.std(ddof=1):.1%}", ""]
        for phase in rounds[0][0].phases:
            took = np.array([[each.phases[phase] for each in both] for both in rounds])
            share = float((took[:, 0] / np.exp(steps[:, 0])).mean())
            if share > NOTICED:
                ratio = np.log(took[:, 0] / took[:, 1])
                left = f"{(whole - ratio).std(ddof=1):.1%}"
                yield [name, phase, f"{share:.0%}", _times(ratio), f"{ratio.std(ddof=1):.1%}", left]


def _times(logs: Floats) -> str:
    """The geometric mean with its standard error."""
    return f"{np.exp(logs.mean()):.2f} ± {np.exp(logs.mean()) * logs.std(ddof=1) / math.sqrt(len(logs)):.2f}"


def turn_rows(noises: Mapping[str, Noise], count: int) -> Iterator[list[str]]:
    """A line for each noise of turns: false alarms by how far starts are apart, and speedups found."""
    yield [
        "noise of turns",
        *(f"false alarms, starts off by {starts:.1%}" for starts in STARTS_OFF),
        *(f"{true:g} times as fast" for true in TRUE),
    ]
    for name, noise in noises.items():
        alarms = [play_turns(noise, count, starts).alarms for starts in STARTS_OFF]
        found = [play_turns(noise, count, STARTS_OFF[1], true) for true in TRUE]
        yield [
            name,
            *(f"{share:.1%}" for share in alarms),
            *(f"{each.share(Outcome.FASTER):.0%} ({np.mean(each.rounds):.1f} starts)" for each in found),
        ]


def scatter(noise: Noise) -> float:
    """How far neighbouring executions lie apart: the standard deviation of their log ratio."""
    random = np.random.default_rng(0)
    pairs = np.array([noise(random, 2) for _ in range(1000)])
    return float(np.std(pairs[:, 0] - pairs[:, 1]))


def alarm_rows(noises: Mapping[str, Noise], count: int) -> Iterator[list[str]]:
    """A line for each noise: false alarms for each plan, rounds needed, false alarms without correction."""
    yield [
        "noise",
        "ratio of neighbours scatters by",
        *(f"{planned} rounds" for planned in PLANS),
        f"rounds needed of {PLANNED}",
        f"{PLANNED} rounds, each look at 95 %",
    ]
    for name, noise in noises.items():
        found = {planned: play(noise, count, planned) for planned in PLANS}
        naive = play(noise, count, PLANNED, corrected=False)
        yield [
            name,
            f"{scatter(noise):.1%}",
            *(f"{found[planned].alarms:.1%}" for planned in PLANS),
            f"{np.mean(found[PLANNED].rounds):.1f}",
            f"{naive.alarms:.1%}",
        ]


def power_rows(noises: Mapping[str, Noise], count: int) -> Iterator[list[str]]:
    """A line for each noise: how often a true speedup is called faster, and after how many rounds."""
    yield ["noise", *(f"{true:g} times as fast" for true in TRUE)]
    for name, noise in noises.items():
        found = [play(noise, count, PLANNED, true) for true in TRUE]
        yield [
            name,
            *(f"{each.share(Outcome.FASTER):.0%} ({np.mean(each.rounds):.1f} rounds)" for each in found),
        ]


# ---------------------------------------------------------------- real trials


class Quiet:
    """Shows nothing of a trial."""

    def begin(self, what: str, done: int, of: int, left_s: float | None) -> None:
        """An execution begins."""

    def say(self, remark: Remark) -> None:
        """A remark."""

    def end(self) -> None:
        """The trial is over."""


def real_rows(
    scripts: Sequence[str], count: int, seconds: float | None, console: Console
) -> Iterator[list[str]]:
    """A line for each script: real trials against itself, of `seconds` each where that is given."""
    yield [
        "script", "trials", "faster", "slower", "another result", "half width of the interval", "seconds",
        "rounds",
    ]  # fmt: skip
    for script in scripts:
        verdicts = []
        for number in range(count):
            with tempfile.TemporaryDirectory() as out:
                command = (sys.executable, str(SCRIPTS / f"{script}.py"))
                request = Request(command, (ORIGINAL,), str(SCRIPTS), seconds=seconds, yes=True, out=out)
                trial = trials.run(request, Quiet())
            if trial.interrupted:
                sys.exit(trial.exit_code)
            (verdict,) = trial.verdicts
            verdicts.append((verdict, trial))
            console.print(f"{script} {number + 1}/{count}: {verdict.outcome.value}: {verdict.because}")
        outcomes = [verdict.outcome for verdict, _ in verdicts]
        widths = [
            verdict.speedup.high / verdict.speedup.likely - 1
            for verdict, _ in verdicts
            if verdict.speedup is not None
        ]
        yield [
            script,
            str(count),
            *(str(outcomes.count(each)) for each in (Outcome.FASTER, Outcome.SLOWER, Outcome.CHANGED)),
            f"{np.median(widths):.1%}" if widths else "-",
            f"{np.median([trial.seconds for _, trial in verdicts]):.0f}",
            f"{np.mean([trial.rounds for _, trial in verdicts]):.1f}",
        ]


# ---------------------------------------------------------------- what is shown


def machine() -> str:
    """Where this was measured."""
    import torch

    cores = f"{os.cpu_count()} cores, load {os.getloadavg()[2]:.1f}"
    return f"{cores}, Python {platform.python_version()}, torch {torch.__version__}"


def markdown(rows: Sequence[Sequence[str]]) -> list[str]:
    """A table; the first row is its heading."""
    head, *rest = ["| " + " | ".join(row) + " |" for row in rows]
    return [head, "|" + "---|" * len(rows[0]), *rest]


def write(part: str, lines: Sequence[str]) -> None:
    """Replace one part of the page; the rest of it is written by hand."""
    begin, end = f"<!-- {part}: begin -->", f"<!-- {part}: end -->"
    head, _, rest = PAGE.read_text(encoding="utf-8").partition(begin)
    tail = rest.partition(end)[2]
    PAGE.write_text("\n".join([f"{head}{begin}", *lines, f"{end}{tail}"]), encoding="utf-8")


def show(console: Console, title: str, rows: Sequence[Sequence[str]]) -> None:
    """Print a table."""
    table = Table(*rows[0], title=title)
    for row in rows[1:]:
        table.add_row(*row)
    console.print(table)


def played(args: argparse.Namespace, scripts: Sequence[str], console: Console) -> None:
    """Record, play, print, and write the page if asked to."""
    if args.source is not None:
        kept = json.loads(args.source.read_text(encoding="utf-8"))
    else:
        kept = {
            "machine": machine(),
            "step_s": {each: record(each, args.executions, console) for each in scripts},
        }
    if args.keep is not None:
        args.keep.write_text(json.dumps(kept), encoding="utf-8")
    noises = {**{script: replayed(times) for script, times in kept["step_s"].items()}, **MADE_UP}
    alarms, power = list(alarm_rows(noises, args.trials)), list(power_rows(noises, args.trials))
    show(console, "False alarms", alarms)
    show(console, "Speedups found", power)
    if args.write:
        each = next(iter(kept["step_s"].values()))
        said = f"{args.trials} trials each, from {len(each)} executions of each script; {kept['machine']}."
        written = f"Written by `python bench/trials.py --write`: {said}"
        write(PLAYED, [written, "", *markdown(alarms), "", *markdown(power)])


def main() -> None:
    """Play trials, or make real ones."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scripts", default=",".join(CHOSEN), help="which, with commas between")
    parser.add_argument("--executions", type=int, default=24, help="recorded of each script")
    parser.add_argument("--trials", type=int, default=2000, help="played under each noise")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="keep what was recorded")
    parser.add_argument("--from", type=Path, dest="source", metavar="FILE", help="play what was kept")
    parser.add_argument(
        "--real", type=int, metavar="N", help="make N real trials of each script against itself"
    )
    parser.add_argument("--seconds", type=float, help="for each real trial")
    parser.add_argument("--turns", action="store_true", help="play trainings that take turns, recording none")
    parser.add_argument("--control", action="store_true", help="play trials with other phases as a control")
    parser.add_argument(
        "kept", nargs="*", type=Path, metavar="TRIAL", help="for --control: folders of kept trials"
    )
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    args = parser.parse_args()
    console = Console()
    scripts = args.scripts.split(",")
    if args.executions < 2 * max(PLANS):
        raise SystemExit(
            f"--executions {args.executions}: {max(PLANS)} rounds need at least {2 * max(PLANS)}"
        )
    if args.control:
        tables = [
            list(control_rows(MADE_UP, args.trials)),
            *([list(phase_rows(args.kept))] if args.kept else []),
        ]
        for rows in tables:
            show(console, "Other phases as a control", rows)
        if args.write:
            said = f"{args.trials} trials each, {PLANNED_STARTS} starts of {TURNS} turns; {machine()}."
            lines = [line for rows in tables for line in ("", *markdown(rows))]
            write(CONTROL, [f"Written by `python bench/trials.py --control --write`: {said}", *lines])
        return
    if args.turns:
        rows = list(turn_rows(MADE_UP, args.trials))
        show(console, "Trainings that take turns", rows)
        if args.write:
            said = f"{args.trials} trials each, {PLANNED_STARTS} starts of {TURNS} turns at most."
            write(
                IN_TURNS,
                [f"Written by `python bench/trials.py --turns --write`: {said}", "", *markdown(rows)],
            )
        return
    if args.real is None:
        played(args, scripts, console)
        return
    rows = list(real_rows(scripts, args.real, args.seconds, console))
    show(console, "Real trials of a script against itself", rows)
    if args.write:
        within = f" --seconds {args.seconds:g}" if args.seconds else ""
        written = f"Written by `python bench/trials.py --real {args.real}{within} --write`; {machine()}."
        write(REAL, [written, "", *markdown(rows)])


if __name__ == "__main__":
    main()

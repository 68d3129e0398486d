"""How well predicted ranges hold measured gains, by kind of change; fits the table that widens them.

python bench/ranges.py [--cases bench/measured_gains.csv] [--write]

Each case is a change whose gain the step model predicted (`low`, `likely`, `high`, not corrected; `bound`, if
its class of time were free) before it was measured: `twin`, by a cured twin of a sample script, `busy`, the
same beside other programs; `unseen`, by one of a script whose author does not know perfdoctor; `trial`, by
`perfdoctor try`. `setting` says that only a setting changed, such as a number of workers, and no measured
time went. All cases of one cause are left out in turn and judged by the others.
"""

from __future__ import annotations

import argparse
import csv
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from perfdoctor.diagnosis import calibration
from perfdoctor.diagnosis.calibration import Case, widen
from perfdoctor.model.concluded import Bottleneck, Gain
from perfdoctor.model.widening import Widening
from perfdoctor.tips.catalogue import tips

ROOT = Path(__file__).parents[1]
CASES = Path(__file__).with_name("measured_gains.csv")
MODULE = ROOT / "perfdoctor" / "diagnosis" / "calibration.py"
BEGIN, END = "# table: begin\n", "# table: end\n"
COLUMNS = ("source", "script", "finding", "setting", "low", "likely", "high", "bound", "measured")
PROMISED = 0.8


def case(cause: str, predicted: Gain, is_setting: bool, bound: float, measured: float) -> Case:
    """A gain that was predicted for a tip, as the model gives it, and then measured."""
    heading = {tip.id: tip.heading for tip in tips()}[cause]
    return Case(heading.bottleneck, heading.effort, cause, predicted, measured, is_setting, bound)


def read(path: Path) -> list[Case]:
    """The cases of a file, which has `COLUMNS`; older ones are without a bound."""
    with path.open(encoding="utf-8", newline="") as file:
        return [
            case(
                row["finding"],
                Gain(float(row["low"]), float(row["likely"]), float(row["high"])),
                row["setting"] == "yes",
                float(row["bound"] or math.inf),
                float(row["measured"]),
            )
            for row in csv.DictReader(file)
        ]


def replace(path: Path, source: str, cases: Mapping[str, Case]) -> None:
    """Put newly measured cases, by script, in the place of older ones from the same source."""
    with path.open(encoding="utf-8", newline="") as file:
        kept = [
            row for row in csv.DictReader(file) if not (row["source"] == source and row["script"] in cases)
        ]
    for script, case in cases.items():
        gain = case.predicted
        figures = {"low": gain.low, "likely": gain.likely, "high": gain.high}
        figures |= {"bound": case.bound, "measured": case.measured}
        kept.append(
            {
                "source": source,
                "script": script,
                "finding": case.cause,
                "setting": "yes" if case.is_setting else "no",
            }
            | {name: f"{figure:.2f}" for name, figure in figures.items()}
        )
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(sorted(kept, key=lambda row: (row["source"], row["script"])))


def left_out(cases: Sequence[Case]) -> list[tuple[Case, Gain]]:
    """Each case with the range that it gets from the cases of all other causes."""
    judged = []
    for cause in sorted({case.cause for case in cases}):
        others = [case for case in cases if case.cause != cause]
        powers = calibration.fit_powers(others)
        everything, kinds = calibration.fit([case.raised(powers) for case in others])
        for case in cases:
            if case.cause == cause:
                by = kinds.get(case.kind, calibration.UNMEASURED)
                if not by.is_known:
                    by = calibration.unknown(everything, kinds.values(), by.cases)
                judged.append((case, widen(case.raised(powers).predicted, by)))
    return judged


def rows(cases: Sequence[Case]) -> list[str]:
    """A line for each kind, and one for all: cases, coverage before and after, median width and errors.

    The errors are those of the predicted step time, before and after the gain is raised.
    """
    judged = left_out(cases)
    heads = f"{'kind':<10} {'cases':>5} {'model alone':>12} {'widened':>8} {'width':>6}"
    lines = [f"{heads} {'error alone':>12} {'raised':>7}"]
    for kind in (*Bottleneck, None):
        some = [(case, gain) for case, gain in judged if kind in (None, case.kind)]
        if some:
            alone = _share([case.below == case.above == 0 for case, _ in some])
            held = _share([gain.low <= case.measured <= gain.high for case, gain in some])
            width = math.exp(statistics.median(math.log(gain.high / gain.low) for _, gain in some))
            name = kind.value if kind else "all"
            before, after = (
                statistics.median(abs(case.measured / likely - 1.0) for case, likely in pairs)
                for pairs in (
                    [(case, case.predicted.likely) for case, _ in some],
                    [(case, gain.likely) for case, gain in some],
                )
            )
            held_by = f"{name:<10} {len(some):>5} {alone:>12.0%} {held:>8.0%} {width:>5.2f}x"
            lines.append(f"{held_by} {before:>12.0%} {after:>7.0%}")
    return lines


def _share(answers: Sequence[bool]) -> float:
    return sum(answers) / len(answers)


def table(cases: Sequence[Case]) -> str:
    """The lines of the module that hold what was fitted."""
    powers = {kind: round(power, 2) for kind, power in calibration.fit_powers(cases).items()}
    everything, kinds = calibration.fit([case.raised(powers) for case in cases])
    return "".join(
        [
            "POWERS: Mapping[Bottleneck, float] = {\n",
            *(f"    Bottleneck.{kind.name}: {powers[kind]},\n" for kind in Bottleneck if kind in powers),
            "}\n",
            f"ALL_KINDS = {_literal(everything)}\n",
            "BY_KIND: Mapping[Bottleneck, Widening] = {\n",
            *(
                f"    Bottleneck.{kind.name}: {_literal(kinds[kind])},\n"
                for kind in Bottleneck
                if kind in kinds
            ),
            "}\n",
        ]
    )


def _literal(fitted: Widening) -> str:
    return f"Widening(cases={fitted.cases}, below={fitted.below:.3f}, above={fitted.above:.3f})"


def write(cases: Sequence[Case]) -> None:
    """Put the table into the module."""
    text = MODULE.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    MODULE.write_text(f"{head}{BEGIN}{table(cases)}{END}{rest.partition(END)[2]}", encoding="utf-8")


def main() -> int:
    """Print coverage and width, and write the table if asked to; 1 if less is held than promised."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=Path, default=CASES, help="predicted and measured gains")
    parser.add_argument("--write", action="store_true", help=f"write {MODULE.relative_to(ROOT)}")
    args = parser.parse_args()
    cases = read(args.cases)
    print("\n".join(rows(cases)))
    if args.write:
        write(cases)
    held = _share([gain.low <= case.measured <= gain.high for case, gain in left_out(cases)])
    return 0 if held >= PROMISED else 1


if __name__ == "__main__":
    raise SystemExit(main())

"""How well the ranges that tips print hold gains that others published; fits the table that they come from.

python bench/published.py FOLDER [--fit] [--write]

FOLDER holds tables (CSV): a model a row, with its name, two columns of rates (`..._per_s`, as it was and
changed) and `speedup`. Which change a table is about is told by the names of its rates. Families of
models are split in two by a hash of their name: `--fit` puts into the module what the one half says, and the
other half judges it; `--write` puts what is printed into docs/gpu.md.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import math
import re
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from perfdoctor.facts.predict import published_gains
from perfdoctor.facts.predict.published_gains import NARROW, WIDE, MainWork, ModelKind
from perfdoctor.model.concluded import Gain

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # as a script, it sees its own folder only
from bench.published_models import known  # noqa: E402

MODULE = ROOT / "perfdoctor" / "facts" / "predict" / "published_gains.py"
PAGE = ROOT / "docs" / "gpu.md"
TABLE = "# table: begin\n", "# table: end\n"
SHOWN = "<!-- published: begin -->\n", "<!-- published: end -->\n"
PROMISED = 0.8  # of published gains lie in the predicted range
SIGN = 0.9  # of likely gains are on the right side of 1
NEAR = 0.03  # gains this close to 1 have no sign: trials differ by as much
# Of 0, 1, 2, ... the first with which each kind of model of each table has a quarter of its rows in either
# half. Rows were counted for that, not gains.
SALT = 15

RATE = re.compile(r"(\w+?)_(?:samples_|images_|tokens_)?per_s")
CHANGES = {
    ("nchw", "nhwc"): "--channels-last",
    ("eager", "compiled"): "--compile",
    ("fp32", "fp16"): "--amp",
    ("fp32", "bf16"): "--amp",
    ("fp32", "amp"): "--amp",
    ("fp32", "tf32"): "--tf32",
}
COVERED = ("--channels-last", "--compile", "--amp")

# By name: from Ampere on, products in float32 may run as TF32, which they did in these trainings.
TF32 = re.compile(r"(\b|\dx)([ABH]\d{2,4}\b|GH200|L4|RTX ?[3-5]0\d0|RTX 6000 Ada)", re.IGNORECASE)
TENSOR_CORES = re.compile(r"(\b|\dx)(V100|T4\b|TITAN (RTX|V\b)|RTX ?(20\d0|[4-8]000)|2080)", re.IGNORECASE)

# What a run measures as the share of kernels that can be fused is estimated from operations and outputs of a
# model's layers: the first at 70 % of the device's rate in 16 bits, the second each read and written once
# more in 16 bits, at 80 % of its bandwidth (NVIDIA's white paper on the architecture of the RTX 4090).
US_PER_GMAC = 2e9 / (0.7 * 165.2e12) * 1e6
US_PER_MACTIVATION = 1e6 * 2 * 2 / (0.8 * 1008e9) * 1e6

ONE_SIDE = 0.9  # of the fitted half lies above the low end, and as much below the high end
# What a family that was not seen may lie beside a single one that was: a guess, halved for two, and so on.
BESIDE_ONE = math.log(1.5)

Points = dict[str, list[tuple[float, float]]]  # by family: log of the groups' width, log of the gain


@dataclass(frozen=True)
class Row:
    """A published gain, and what a run would have known."""

    change: str
    model: str
    family: str
    kind: ModelKind
    published: float  # speedup
    fusible: float | None = None  # share of the computing in kernels that can be fused
    tf32: bool | None = (
        None  # whether float32 ran as TF32; None for a device not known, or without tensor cores
    )

    @property
    def is_judged(self) -> bool:
        """Whether it lies in the half that nothing is fitted on."""
        return bool(hashlib.sha256(f"{SALT}{self.family}".encode()).digest()[0] % 2)

    @property
    def predicted(self) -> Gain | None:
        """What perfdoctor predicts; None where it covers no such change or device."""
        if self.change == "--channels-last":
            return published_gains.channels_last(self.kind)
        if self.change == "--compile":
            return published_gains.compiled(self.kind, self.fusible)
        if self.change == "--amp" and self.tf32 is not None:
            return published_gains.mixed_precision(self.kind, self.tf32)
        return None


# --- reading


def read(folder: Path) -> tuple[list[Row], list[str]]:
    """The rows of all tables of a folder, and a line for each thing that could not be used."""
    rows, problems = list[Row](), list[str]()
    for path in sorted(folder.glob("*.csv")):
        with path.open(encoding="utf-8", errors="replace", newline="") as file:
            reader = csv.DictReader(file)
            columns = [name for name in reader.fieldnames or () if name]
            lines = list(reader)
        rates = [name for name in columns if RATE.fullmatch(name)]
        pair = tuple(RATE.sub(r"\1", name) for name in rates)
        if "model" not in columns or len(pair) != 2 or pair not in CHANGES:
            problems.append(f"{path.name}: left out, no known change by its columns: {', '.join(columns)}")
            continue
        some = [row for line in lines if (row := _row(CHANGES[pair], rates, line)) is not None]
        if len(some) < len(lines):
            problems.append(
                f"{path.name}: {len(lines) - len(some)} of {len(lines)} rows lack a model or a gain"
            )
        rows += some
    absent = [change for change in COVERED if not any(row.change == change for row in rows)]
    return rows, [*problems, *(f"{change}: no table of it in {folder}" for change in absent)]


def _row(change: str, rates: Sequence[str], line: Mapping[str, str | None]) -> Row | None:
    model = (line.get("model") or "").strip()
    before, after = (_number(line.get(name)) for name in rates)
    gain = _number(line.get("speedup")) or (after / before if before and after else None)
    if not model or not gain:
        return None
    entry, device = known(model), line.get("gpu") or ""
    fusible = _fusible(_number(line.get("gmacs")), _number(line.get("mactivations")))
    tf32 = True if TF32.search(device) else False if TENSOR_CORES.search(device) else None
    return Row(change, model, entry.family, entry.kind, gain, fusible, tf32)


def _number(text: str | None) -> float | None:
    """A positive number, or None."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0 < value < math.inf else None


def _fusible(gmacs: float | None, mactivations: float | None) -> float | None:
    if gmacs is None or mactivations is None:
        return None
    pointwise_us, products_us = US_PER_MACTIVATION * mactivations, US_PER_GMAC * gmacs
    return pointwise_us / (pointwise_us + products_us)


# --- judging


def is_held(row: Row, gain: Gain) -> bool:
    """Whether the published gain lies in the predicted range."""
    return gain.low <= row.published <= gain.high


def is_sign_right(row: Row, gain: Gain) -> bool:
    """Whether the likely gain is on the side of 1 where the published one is, or both are close to it."""
    both = gain.likely, row.published
    return all(abs(speedup - 1.0) <= NEAR for speedup in both) or (both[0] > 1.0) == (both[1] > 1.0)


def lines(rows: Sequence[Row]) -> list[str]:
    """A table in Markdown: each change and kind of models, in either half."""
    heads = (
        "change",
        "models",
        "half",
        "rows",
        "families",
        "held",
        "sign",
        "slower foreseen",
        "high / low",
    )
    shown = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for change in dict.fromkeys(row.change for row in rows):
        alike = [row for row in rows if row.change == change]
        works = [work for work in (*MainWork, None) if any(row.kind.work is work for row in alike)]
        for name, some in (
            ("all", alike),
            *((work.value if work else "of unknown kind", _of(alike, work)) for work in works),
        ):
            for half in ("fitted", "judged"):
                part = [row for row in some if row.is_judged is (half == "judged")]
                if part:
                    shown.append(_line(change, name, half, part))
    return shown


def _of(rows: Iterable[Row], work: MainWork | None) -> list[Row]:
    return [row for row in rows if row.kind.work is work]


def _pairs(rows: Iterable[Row]) -> Iterator[tuple[Row, Gain]]:
    return ((row, gain) for row in rows if (gain := row.predicted) is not None)


def _line(change: str, name: str, half: str, rows: Sequence[Row]) -> str:
    pairs = list(_pairs(rows))
    families = len({row.family for row in rows})
    uncovered = f", {len(rows) - len(pairs)} not covered" if len(pairs) < len(rows) else ""
    cells = [f"`{change}`", name, half, f"{len(rows)}{uncovered}", f"{families}"]
    if not pairs:
        return f"| {' | '.join([*cells, '', '', '', ''])} |"
    slower = [gain.low < 1.0 - NEAR for row, gain in pairs if row.published < 1.0 - NEAR]
    width = math.exp(statistics.median(math.log(gain.high / gain.low) for _, gain in pairs))
    cells += [
        f"{share(pairs, is_held):.0%}",
        f"{share(pairs, is_sign_right):.0%}",
        f"{sum(slower)} of {len(slower)}",
        f"{width:.1f}",
    ]
    return f"| {' | '.join(cells)} |"


def share(pairs: Sequence[tuple[Row, Gain]], is_right: Callable[[Row, Gain], bool]) -> float:
    """Of these rows, the share of which this is true."""
    return sum(is_right(row, gain) for row, gain in pairs) / len(pairs)


def short(
    rows: Sequence[Row], word: str, is_right: Callable[[Row, Gain], bool], promised: float
) -> list[str]:
    """A line for each change of which less is true of the judged half than promised."""
    said = []
    for change in COVERED:
        pairs = list(_pairs(row for row in rows if row.change == change and row.is_judged))
        if pairs and share(pairs, is_right) < promised:
            said.append(
                f"{change}: {word} {share(pairs, is_right):.0%} of the judged half, not {promised:.0%}"
            )
    return said


# --- fitting


def table(rows: Sequence[Row]) -> str:
    """The lines of the module, from the half that is fitted."""
    seen = [row for row in rows if not row.is_judged and row.kind.work is not None]
    memory, compiling, mixed = ([row for row in seen if row.change == change] for change in COVERED)
    narrow, wide = _by_width(_of(memory, MainWork.GROUPED))
    fused = ", ".join(f"{share:.3f}" for share in _fused(_of(compiling, MainWork.MATRICES)))
    return "".join(
        [
            "CHANNELS_LAST: Mapping[MainWork, Figures] = {\n",
            *_entries(
                {
                    f"MainWork.{work.name}": _of(memory, work)
                    for work in MainWork
                    if work is not MainWork.GROUPED
                }
            ),
            "}\n",
            f"CHANNELS_LAST_NARROW = {narrow}\n",
            f"CHANNELS_LAST_WIDE = {wide}\n",
            "COMPILED: Mapping[MainWork, Figures] = {\n",
            *_entries({f"MainWork.{work.name}": _of(compiling, work) for work in MainWork}),
            "}\n",
            f"FUSED = ({fused})  # of the time in kernels that can be fused: low, likely, high\n",
            "MIXED_PRECISION: Mapping[tuple[MainWork, bool], Figures] = {  # in True, float32 ran as TF32\n",
            *_entries(
                {
                    f"(MainWork.{work.name}, {tf32})": [row for row in _of(mixed, work) if row.tf32 is tf32]
                    for work in MainWork
                    for tf32 in (False, True)
                }
            ),
            "}\n",
        ]
    )


def _entries(by_key: Mapping[str, Sequence[Row]]) -> list[str]:
    return [f"    {key}: {_literal(rows, *_range(_points(rows)))},\n" for key, rows in by_key.items() if rows]


def _literal(rows: Sequence[Row], *logs: float) -> str:
    gain = ", ".join(f"{math.exp(log):.2f}" for log in logs)
    return f"Figures({len(rows)}, {len({row.family for row in rows})}, Gain({gain}))"


def _points(rows: Sequence[Row]) -> Points:
    return {
        family: [(0.0, math.log(row.published)) for row in rows if row.family == family]
        for family in sorted({row.family for row in rows})
    }


def _by_width(rows: Sequence[Row]) -> tuple[str, str]:
    """The ranges of narrow and of wide groups: a line through the gains, and how they lie around it."""
    points: Points = defaultdict(list)
    for row in rows:
        width = min(max(row.kind.group_width or NARROW, NARROW), WIDE)
        points[row.family].append((math.log(width / NARROW), math.log(row.published)))
    slope = _slope(_all(points))
    around = _range(points)
    ends = (0.0, slope * math.log(WIDE / NARROW))
    narrow, wide = (_literal(rows, *(end + offset for offset in around)) for end in ends)
    return narrow, wide


def _fused(rows: Sequence[Row]) -> tuple[float, float, float]:
    """Of the time in kernels that can be fused, what went: low, likely and high."""
    points: Points = defaultdict(list)
    for row in rows:
        if row.fusible:
            points[row.family].append((0.0, (1.0 - 1.0 / row.published) / row.fusible))
    low, likely, high = _range(points)
    return max(0.0, low), likely, high


def _range(points: Points) -> tuple[float, float, float]:
    """Low, likely and high around the line through the points, as a family that was not seen asks for.

    Nine of ten points lie above the low end, and as many below the high one. Each family in turn is then held
    against the range of all others, and the ends move apart until they hold nine of ten of these points, too,
    and a little further the fewer families there are.
    """
    low, likely, high = _around(_all(points))
    below, above = [0.0], [0.0]
    for family in points if len(points) > 1 else ():
        others = _all({name: some for name, some in points.items() if name != family})
        slope, (least, _, most) = _slope(others), _around(others)
        below += [max(0.0, least - (y - slope * x)) for x, y in points[family]]
        above += [max(0.0, y - slope * x - most) for x, y in points[family]]
    beside = BESIDE_ONE / len(points)
    return low - _quantile(below) - beside, likely, high + _quantile(above) + beside


def _all(points: Points) -> list[tuple[float, float]]:
    return [point for some in points.values() for point in some]


def _slope(points: Sequence[tuple[float, float]]) -> float:
    """Of the line through points; none rises, and points that all lie at one place have none."""
    x, y = zip(*points, strict=True)
    return min(0.0, statistics.linear_regression(x, y).slope) if len(set(x)) > 1 else 0.0


def _around(points: Sequence[tuple[float, float]]) -> tuple[float, float, float]:
    """Where the line of the low end, of the likely value and of the high end begin."""
    slope = _slope(points)
    around = [y - slope * x for x, y in points]
    return -_quantile([-each for each in around]), statistics.median(around), _quantile(around)


def _quantile(values: Sequence[float]) -> float:
    """The smallest that nine of ten do not exceed, with one to come."""
    place = math.ceil(ONE_SIDE * (len(values) + 1))
    return sorted(values)[min(place, len(values)) - 1]


def put(path: Path, marks: tuple[str, str], text: str) -> None:
    """Put a text between its marks in a file."""
    head, begin, rest = path.read_text(encoding="utf-8").partition(marks[0])
    path.write_text(f"{head}{begin}{text}{marks[1]}{rest.partition(marks[1])[2]}", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print how well published gains are held; 1 where fewer of the judged half are than promised."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="with tables of published gains")
    parser.add_argument("--fit", action="store_true", help=f"write the table of {MODULE.relative_to(ROOT)}")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    args = parser.parse_args(arguments)
    rows, problems = read(args.folder)
    print("\n".join(problems), end="\n" if problems else "")
    if not rows:
        print(f"nothing to judge: {args.folder} holds no table of published gains")
        return 1
    if args.fit and not all(any(row.change == change for row in rows) for change in COVERED):
        print(f"nothing fitted: that takes tables of {', '.join(COVERED)}")
        return 1
    if args.fit:
        put(MODULE, TABLE, table(rows))
        print(f"fitted; run it again without --fit to judge {MODULE.relative_to(ROOT)}")
        return 0
    shown = "\n".join(lines(rows))
    failed = short(rows, "held", is_held, PROMISED)
    print(shown, *failed, *short(rows, "right sign", is_sign_right, SIGN), sep="\n")
    if args.write:
        put(PAGE, SHOWN, f"\n{shown}\n\n")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())

"""How figures and names are written everywhere: short, with a unit, and unable to steer a terminal."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Mapping, Sequence

from perfdoctor.model.concluded import Bottleneck, Diagnosis, Gain, Verdict
from perfdoctor.model.launchers import PYTHON
from perfdoctor.model.measured import Location, OverheadFacts, RunFacts
from perfdoctor.model.report import Report
from perfdoctor.model.units import count as count
from perfdoctor.model.units import figures as figures
from perfdoctor.model.units import seconds as seconds
from perfdoctor.model.units import size as size

NOTHING_GAINED = 1.01  # a speedup below this is no promise of speed
ALL = 100 - 1e-9  # percent: what is missing is the rounding of a sum
LEAST_SHOWN = 0.005  # a class below this share is left out
FINE_BELOW = 1.3  # speedups below this are written with a second decimal
COARSE_FROM = 9.95  # and from here without any

SENTENCES = {
    Verdict.DATA: "Training waits for data",
    Verdict.TRANSFER: "Training waits for copies to the device",
    Verdict.COMPUTE: "Training is bound by computing",
    Verdict.NETWORK: "Training waits for the network",
    Verdict.HOST: "Training is bound by Python code",
    Verdict.BALANCED: "No single cause",
    Verdict.HEALTHY: "Healthy: the time goes into computing",
    Verdict.INCONCLUSIVE: "No verdict",
}

# Where another class takes more of the time: training is bound by that one, though no cure of it is known.
AVOIDABLE = {
    Verdict.COMPUTE: "Training could save most in computing",
    Verdict.HOST: "Training could save most in Python code",
}

# Of time that is charged to the network and is waiting for a rank with more to compute: both of these.
BETWEEN_RANKS = "Training waits for one of its ranks", "Training could save most in waiting between ranks"

# For an output that cannot encode Unicode: one ASCII letter or two for each sign the pages use.
ASCII = str.maketrans(
    {"█": "#", "·": "-", "–": "-", "—": "-", "×": "x", "µ": "u", "…": "~", "≤": "<=", "≥": ">="}
    | dict(zip("▁▂▃▄▅▆▇", "_.:-=+*", strict=True))
)


def escape_control(text: str) -> str:
    """`text` on one line, with what could steer a terminal written as an escape."""
    if text.isascii() and text.isprintable():  # as nearly all is
        return text
    return "".join(letter if _is_plain(letter) else _escape(letter) for letter in text)


def _is_plain(letter: str) -> bool:
    # C*: controls, formats (text direction!), surrogates, unassigned; Z*: line breaks and odd spaces.
    return letter == " " or unicodedata.category(letter)[0] not in "CZ"


def _escape(letter: str) -> str:
    return " " if letter in "\t\xa0" else letter.encode("unicode_escape").decode()


def duration(value_s: float) -> str:
    """A longer time as a clock writes it: `31.2 s`, `4:07 min`, `2:05:11 h`."""
    if value_s < 59.95:
        return seconds(value_s)
    minutes, rest_s = divmod(round(value_s), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest_s:02} h" if hours else f"{minutes}:{rest_s:02} min"


def percent(share: float) -> str:
    """A share as a percentage: `61%`, `0.03%`; never a rounded 0 or 100 for what is not."""
    value = 100 * share
    if value and abs(value) < 0.95:
        return f"{value:.2g}%" if abs(value) >= 0.01 else "<0.01%"
    if 99.5 <= value < ALL:
        return f"{value:.1f}%" if value < 99.95 else ">99.9%"
    return f"{round(value)}%"


def watching(cost: OverheadFacts) -> str:
    """What watching cost: `30 µs to 90 µs a step (0.3% to 0.9% of it)`, or at least so much."""
    each = cost.share / cost.seconds_per_step if cost.seconds_per_step else 0.0
    low_s, high_s = cost.low_seconds_per_step, cost.high_seconds_per_step
    if high_s is None:
        return f"at least {seconds(cost.seconds_per_step)} a step ({percent(cost.share)} of it)"
    if seconds(low_s) == seconds(high_s):
        return f"{seconds(high_s)} a step ({percent(each * high_s)} of it)"
    ends = dict.fromkeys((percent(each * low_s), percent(min(1.0, each * high_s))))
    return f"{seconds(low_s)} to {seconds(high_s)} a step ({' to '.join(ends)} of it)"


def times(speedup: float) -> str:
    """A speedup: `2.3×`; with a second decimal where the first would hide most of it."""
    return f"{speedup:.{_decimals(speedup)}f}×"


def _decimals(speedup: float) -> int:
    return 2 if speedup < FINE_BELOW else 1 if speedup < COARSE_FROM else 0


def gain(predicted: Gain) -> str:
    """A predicted gain with its range: `2.3× faster (1.8–2.6×)`."""
    if predicted.high < NOTHING_GAINED:
        return "no speed to gain"
    likely_alone = 2 if f"{predicted.likely:.1f}" == "1.0" else 0  # one decimal would hide all of it
    decimals = max(_decimals(predicted.high), likely_alone)
    low, high = f"{predicted.low:.{decimals}f}", f"{predicted.high:.{decimals}f}"
    return f"{predicted.likely:.{decimals}f}× faster" + ("" if low == high else f" ({low}–{high}×)")


def joined(parts: Sequence[str]) -> str:
    """Parts of one line, with a calm dot between them."""
    return " · ".join(part for part in parts if part)


def path(file: str, cwd: str) -> str:
    """A file as the user would type it in the folder of the run."""
    inside = cwd and os.path.isabs(file) and file.startswith(cwd.rstrip(os.sep) + os.sep)
    return os.path.relpath(file, cwd) if inside else file


def place(at: Location, cwd: str) -> str:
    """`train.py:41`."""
    return f"{path(at.file, cwd)}:{at.line}"


def headline(diagnosis: Diagnosis) -> str:
    """The verdict as a sentence without its full stop."""
    sentence = SENTENCES[diagnosis.verdict]
    if diagnosis.verdict is Verdict.BALANCED:
        return f"{sentence}: {' and '.join(classes(diagnosis.classes)[:2])}"
    if diagnosis.verdict in (Verdict.HEALTHY, Verdict.INCONCLUSIVE):
        return sentence
    avoidable = AVOIDABLE.get(diagnosis.verdict, sentence)
    if diagnosis.waits_for_ranks:
        sentence, avoidable = BETWEEN_RANKS
    is_largest = diagnosis.share >= max(diagnosis.classes.values(), default=0.0)
    return f"{sentence if is_largest else avoidable}: {percent(diagnosis.share)} of its time"


def classes(shares: Mapping[Bottleneck, float]) -> list[str]:
    """`data 61%` for every class that shows, the largest first."""
    ordered = sorted(shares.items(), key=lambda item: -item[1])
    return [f"{name.value} {percent(share)}" for name, share in ordered if share >= LEAST_SHOWN]


def summary(report: Report) -> str:
    """The whole report in one line."""
    best = report.findings[0] if report.findings else None
    found = f"{escape_control(best.title)}: {gain(best.gain)}" if best else ""
    return joined([headline(report.diagnosis), found, escape_control(path(report.path, report.run.cwd))])


def script(run: RunFacts) -> str:
    """The command without the interpreter in front of it and the folders of what it starts."""
    words = list(run.command)
    if len(words) > 1 and PYTHON.fullmatch(os.path.basename(words[0])):
        del words[0]
    return " ".join([os.path.basename(words[0].rstrip(os.sep)), *words[1:]]) if words else run.id


def ending(run: RunFacts) -> str:
    """How the run ended, in a few words."""
    if run.outcome == "stopped":
        return "stopped with the watch"
    if run.outcome == "not_started":
        return "never started"
    if run.exit_code is None:
        return "still running" if run.outcome == "running" else "end not seen"
    if run.exit_code < 0:
        return f"ended by {_signal_name(-run.exit_code)}"
    return "finished" if run.exit_code == 0 else f"failed with {run.exit_code}"


def _signal_name(number: int) -> str:
    import signal  # only for runs that a signal ended

    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"

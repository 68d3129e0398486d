"""What a trial's page says in words: verdicts, predictions, places, and what to type next."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from perfdoctor.model.concluded import Gain
from perfdoctor.model.launchers import PYTHON
from perfdoctor.model.trial import (
    LEAST_ROUNDS,
    OWN_ERROR,
    ExecutionSummary,
    Outcome,
    Place,
    Trial,
    VariantResult,
    is_narrow,
)
from perfdoctor.render import text

FIGURE = "--metric 'accuracy: ([0-9.]+)'"
SAME = {True: "the same", False: "changed", None: "not judged"}
LATE_S = 2.0  # from here on another beginning is told even if nothing earns it back: starts differ by less
LONGER = 3  # times: twice the rounds, and longer ones
IN_FULL = 3  # places of a change that are named once more where it is said how to keep it


def ratio(gain: Gain) -> str:
    """A speedup with its range: `1.9× (1.8–2.1×)`."""
    low, high = text.times(gain.low), text.times(gain.high)
    return f"{text.times(gain.likely)} ({low.removesuffix('×')}–{high})"


def told(verdict: VariantResult) -> str:
    """The verdict on one variant: `faster: 1.9× (1.8–2.1×)`."""
    gain, outcome = verdict.speedup, verdict.outcome
    if gain is None:
        return outcome.value
    per = " per sample" if verdict.per == "sample" else ""
    if outcome is Outcome.NO_DIFFERENCE:
        return f"{outcome.value}: between {text.times(gain.low)} and {text.times(gain.high)}{per}"
    return f"{outcome.value}: {ratio(gain)}{per}"


def headline(trial: Trial) -> str:
    """The trial in one sentence, without its full stop."""
    if not trial.verdicts:
        return "Nothing was measured"
    best = trial.winner
    if len(trial.verdicts) == 1:
        only = told(trial.verdicts[0])
        return only[0].upper() + only[1:]
    if trial.kept:
        gained = f", {ratio(best.speedup)}" if best and best.speedup else ""
        return f"Worth keeping: {' '.join(trial.kept)}{gained}"
    number = len(trial.verdicts)
    if best is None or best.speedup is None:
        return f"None of {number} changes was seen to be faster"
    faster = sum(verdict.outcome is Outcome.FASTER for verdict in trial.verdicts)
    are = "is" if faster == 1 else "are"
    return (
        f"{faster} of {number} changes {are} faster; the fastest: {best.variant.name}, {ratio(best.speedup)}"
    )


def prediction(verdict: VariantResult) -> str | None:
    """What was predicted, and how the measurement compares."""
    predicted, measured = verdict.predicted, verdict.speedup
    if predicted is None:
        return None
    if measured is None:
        return ratio(predicted)
    how = "as measured"
    if measured.high < predicted.low:
        how = "more than measured"
    elif measured.low > predicted.high:
        how = "less than measured"
    return f"{ratio(predicted)}, {how}"


def agreement(verdict: VariantResult) -> str | None:
    """Whether the result stayed the same, and what tells, unless that is what the verdict says anyway."""
    found = verdict.equivalence
    if found is None:
        return None
    said = [SAME[found.same], found.because if found.because != verdict.because else ""]
    if found.same is None and found.difference is not None:  # nobody else says how far they are apart
        own = "" if found.noise is None else f", the original's own by {text.percent(found.noise)}"
        said.append(f"they differ by {text.percent(found.difference)}{own}")
    return ": ".join(filter(None, said))


def change(place: Place, cwd: str) -> str:
    """`train.py:41  DataLoader num_workers: 0 -> 4`, or why nothing was changed there."""
    where = f"{text.place(place.at, cwd)}  " if place.at is not None else ""
    if place.because is not None:
        after = "" if place.step is None else f", after {text.count(place.step, 'step')}"
        return f"{where}{place.what}: {place.because}{after}"
    if place.now is None:
        return f"{where}{place.what}"
    before = "" if place.was is None else f"{_value(place.was)} -> "
    return f"{where}{place.what}: {before}{_value(place.now)}"


def _value(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return value if isinstance(value, str) else repr(value)


def distinct(places: Iterable[Place]) -> list[Place]:
    """Places without those that several executions tell, in order; a count may differ between them."""
    found: dict[tuple[object, ...], Place] = {}
    for place in places:
        found.setdefault((place.tweak, place.what, place.at, place.because), place)
    return list(found.values())


def applied(verdict: VariantResult) -> list[Place]:
    """Where the variant's tweaks changed something."""
    return distinct(place for execution in verdict.executions for place in execution.applied)


def left_alone(verdict: VariantResult) -> list[Place]:
    """Where they could have, and did not."""
    return distinct(place for execution in verdict.executions for place in execution.left_alone)


def withdrawn(verdict: VariantResult) -> list[Place]:
    """What they had changed, and left to the script again."""
    return distinct(place for execution in verdict.executions for place in execution.withdrawn)


def warm_up(trial: Trial, verdict: VariantResult) -> str | None:
    """How much later or sooner the variant gets to what is measured, and when a delay is earned back."""
    before_s, after_s = _begun_s(trial.measured), _begun_s(verdict.measured)
    if before_s is None or after_s is None:
        return None
    pays_off = verdict.pays_off_steps
    if pays_off is None and abs(after_s - before_s) < LATE_S:
        return None
    earned = "" if pays_off is None else f": earned back after {text.count(pays_off, 'step')}"
    return f"{text.seconds(after_s)} from the start instead of {text.seconds(before_s)}{earned}"


def _begun_s(measured: ExecutionSummary) -> float | None:
    """Seconds from the start of the command to the first measured step."""
    return None if measured.warm_up_s is None else (measured.start_s or 0.0) + measured.warm_up_s


def command(trial: Trial) -> str:
    """The command as one types it behind `perfdoctor run`."""
    return command_as_typed(trial.command)


def command_as_typed(command: Sequence[str]) -> str:
    """A command without an interpreter that need not be named."""
    named = len(command) > 1 and (command[1] == "-m" or not command[1].startswith("-"))
    is_python = named and PYTHON.fullmatch(os.path.basename(command[0]))
    return shlex.join(command[1:] if is_python else command)


def scaled(trial: Trial, ranks: int) -> str:
    """The command with so many ranks, as one types it behind `perfdoctor run`."""
    return trial.rank_commands.get(ranks) or command(trial)


def moved(trial: Trial, typed: str, cwd: str) -> str:
    """What is typed, with the way to the folder that it holds for where that is another than `cwd`."""
    return f"cd {shlex.quote(trial.cwd)} && {typed}" if trial.cwd and cwd and trial.cwd != cwd else typed


def longer_s(trial: Trial) -> float:
    """Seconds of a trial that tells more."""
    return LONGER * trial.seconds / max(1, len(trial.verdicts))


def next_steps(trial: Trial, cwd: str) -> Iterator[tuple[str, str | None]]:
    """What to do with the result: sentences, and what to type for them in `cwd`."""
    for sentence, typed in _next_steps(trial, cwd):
        yield sentence, None if typed is None else moved(trial, typed, cwd)


def _next_steps(trial: Trial, cwd: str) -> Iterator[tuple[str, str | None]]:
    best = trial.winner
    kept = best.variant.words if best is not None else trial.kept
    if kept:
        measured = [verdict for verdict in trial.verdicts if verdict.variant.words == kept]
        known = distinct(place for verdict in measured for place in applied(verdict))
        places = [change(place, cwd) for place in known if place.at is not None]
        lines = "; ".join(places[:IN_FULL])
        yield (f"to keep it, change {lines}" if lines else "to keep it, change the script"), None
        yield (
            "the same as a diff, to look at and to apply",
            f"perfdoctor patch {shlex.quote(text.path(trial.path, trial.cwd or cwd))}",
        )
        yield "to run with it as it is", f'perfdoctor run --with "{shlex.join(kept)}" {command(trial)}'
    for verdict in trial.verdicts:
        if verdict.outcome is Outcome.WITHDRAWN:
            yield from _after_withdrawal(trial, verdict)
    for verdict in trial.verdicts:
        again = f"perfdoctor try {verdict.variant.name}"
        gain = verdict.speedup
        doubtful = verdict.equivalence is not None and verdict.equivalence.same is not True
        if doubtful and verdict.outcome in (Outcome.CHANGED, Outcome.FASTER) and verdict.metric is None:
            yield (
                "to check that it still learns as well, compare a figure the script prints",
                f"{again} {FIGURE} -- {command(trial)}",
            )
        unclear = verdict.outcome is Outcome.NO_DIFFERENCE and gain and not is_narrow(gain)
        if (unclear or (verdict.too_few and not trial.interrupted)) and not kept:
            more = (
                f"--rounds {2 * max(LEAST_ROUNDS, len(verdict.executions))} --seconds {longer_s(trial):.0f}"
            )
            yield "a longer trial may tell", f"{again} {more} -- {command(trial)}"
    if trial.interrupted:
        yield "the trial was interrupted: the same again measures to the end", None


def _after_withdrawal(trial: Trial, verdict: VariantResult) -> Iterator[tuple[str, str | None]]:
    """What to do where tweaks did not stay applied: without them, or by hand; their own errors are ours."""
    places = withdrawn(verdict)
    gone = {place.tweak for place in places}
    rest = [
        word for setting in verdict.variant.settings if setting.tweak not in gone for word in setting.words
    ]
    if rest:
        yield "the rest can be tried without it", f"perfdoctor try {shlex.join(rest)} -- {command(trial)}"
    if any(place.what == OWN_ERROR for place in places):
        yield "an error of a tweak is a defect of perfdoctor: to report it", "perfdoctor bug"
    by_hand = sorted({place.tweak for place in places if place.what != OWN_ERROR})
    if by_hand:
        sentence = "remove what made it withdraw and try again, or change the script by hand, as explained by"
        yield sentence, f"perfdoctor try --list {' '.join(by_hand)}"

"""Reads and keeps the file of a trial, `trial.json`: the public document, with all that a page shows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from perfdoctor.errors import PerfdoctorError
from perfdoctor.model.concluded import Bottleneck, Gain
from perfdoctor.model.measured import Location
from perfdoctor.model.trial import (
    SCHEMA,
    Execution,
    ExecutionEnd,
    ExecutionSummary,
    LossEquivalence,
    ModelledGain,
    Outcome,
    Place,
    Scaled,
    Setting,
    Trial,
    Variant,
    VariantResult,
)
from perfdoctor.runs import directory
from perfdoctor.runs.checked import checked
from perfdoctor.trials.settings import rank_count

FILE = "trial.json"

Kind = TypeVar("Kind")


def keep(trial: Trial, document: Mapping[str, Any]) -> None:
    """Write a trial's document into its folder. Raises OSError where that cannot be written to."""
    directory.write_json(Path(trial.path) / FILE, document)


def read(folder: Path) -> Trial:
    """The trial that is kept in a folder. Raises PerfdoctorError where there is none that can be read."""
    document = directory.read_json(folder / FILE)
    if document is not None and document.get("schema") == SCHEMA:
        try:
            trial = trial_of(document)
            _check_means(trial)
            return trial
        except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError):
            pass  # damaged: said below
    hint = f"list them with: perfdoctor report --trials{directory.option(folder, 'trials', FILE)}"
    raise PerfdoctorError(f"no readable trial in {folder}", hint)


def _check_means(trial: Trial) -> None:
    """Raise ValueError where times or rates have no mean: they are above 0."""
    for executions in (trial.originals, *(verdict.executions for verdict in trial.verdicts)):
        ExecutionSummary.of(executions)


def trial_of(document: Mapping[str, Any]) -> Trial:
    """The Trial that a document tells of. Raises KeyError, TypeError or ValueError where it is damaged."""
    scaling = tuple(map(_scaled, document.get("scaling", ())))
    values = dict(document) | {
        "command": tuple(document["command"]),
        "originals": _executions(document["original"]),
        "verdicts": tuple(_verdict(entry) for entry in document["variants"]),
        "notes": tuple(document["notes"]),
        "kept": tuple(document["kept"]),
        "base": checked(Variant, {"ranks": document.get("base_ranks")}),  # trials of before had none
        "scaling": scaling,
    }
    trial = checked(Trial, values)
    commands = rank_count.typed_commands(trial.command, (point.ranks for point in scaling))
    return replace(trial, rank_commands=commands)


def _scaled(entry: Mapping[str, Any]) -> Scaled:
    gains = {name: _gain(entry[name]) for name in ("speedup", "efficiency")}
    return checked(Scaled, dict(entry) | gains)


def _verdict(entry: Mapping[str, Any]) -> VariantResult:
    settings = tuple(
        checked(Setting, setting | {"words": tuple(setting["words"])}) for setting in entry["settings"]
    )
    metric = entry["metric"]
    values = dict(entry) | {
        "variant": checked(Variant, {"settings": settings, "ranks": entry.get("ranks")}),
        "outcome": Outcome(entry["verdict"]),
        "executions": _executions(entry),
        "over": tuple(entry["over"]),
        "speedup": _gain(entry["speedup"]),
        "predicted": _gain(entry["predicted"]),
        "modelled": _modelled(entry.get("modelled")),  # trials of before had none
        "equivalence": _maybe(LossEquivalence, entry["loss"]),
        "metric": _numbers((metric["original"], metric["variant"])) if metric else None,
    }
    return checked(VariantResult, values)


def _gain(values: Mapping[str, Any] | None) -> Gain | None:
    """A speedup, which is above 0."""
    gain = _maybe(Gain, values)
    if gain is not None and min(gain.low, gain.likely, gain.high) <= 0:
        raise ValueError("a speedup of nothing")
    return gain


def _modelled(entry: Mapping[str, Any] | None) -> ModelledGain | None:
    if entry is None:
        return None
    acts_on = tuple(map(Bottleneck, entry["acts_on"]))
    return checked(ModelledGain, dict(entry) | {"gain": _gain(entry["gain"]), "acts_on": acts_on})


def _maybe(kind: type[Kind], values: Mapping[str, Any] | None) -> Kind | None:
    return None if values is None else checked(kind, values)


def _executions(entry: Mapping[str, Any]) -> tuple[Execution, ...]:
    return tuple(_execution(values) for values in entry["executions"])


def _execution(entry: Mapping[str, Any]) -> Execution:
    values = dict(entry) | {
        "ending": ExecutionEnd(entry["ending"]),
        "losses": _numbers(entry["losses"]),
        "applied": tuple(map(_place, entry["applied"])),
        "left_alone": tuple(map(_place, entry["left_alone"])),
        "withdrawn": tuple(map(_place, entry.get("withdrawn", ()))),  # trials of before had none
        "broken": tuple(entry["broken"]),
        "printed": _numbers(entry["printed"]),
        "turns_s": _numbers(entry.get("turns_s", ())),
        "may_differ": tuple(entry.get("may_differ", ())),
    }
    return checked(Execution, values)


def _numbers(entries: Iterable[Any]) -> tuple[Any, ...]:
    """Numbers, of which JSON knows no NaN."""
    return tuple(math.nan if entry is None else entry for entry in entries)


def _place(entry: Mapping[str, Any]) -> Place:
    return checked(Place, dict(entry) | {"at": _maybe(Location, entry["at"])})

"""Reads and keeps the file of a trial, `trial.json`: the public document, with all that a page shows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from perfdoctor.errors import PerfdoctorError
from perfdoctor.model.concluded import Gain
from perfdoctor.model.measured import Location
from perfdoctor.model.trial import (
    SCHEMA,
    Execution,
    ExecutionEnd,
    LossEquivalence,
    Outcome,
    Place,
    Scaled,
    Setting,
    Trial,
    Variant,
    VariantResult,
)
from perfdoctor.runs import directory
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
            return trial_of(document)
        except (KeyError, TypeError, ValueError):
            pass  # damaged: said below
    raise PerfdoctorError(f"no readable trial in {folder}", "perfdoctor report --trials lists them")


def trial_of(document: Mapping[str, Any]) -> Trial:
    """The Trial that a document tells of. Raises KeyError, TypeError or ValueError where it is damaged."""
    scaling = tuple(map(_scaled, document.get("scaling", ())))
    values = dict(document) | {
        "command": tuple(document["command"]),
        "originals": _executions(document["original"]),
        "verdicts": tuple(_verdict(entry) for entry in document["variants"]),
        "notes": tuple(document["notes"]),
        "kept": tuple(document["kept"]),
        "base": Variant(ranks=document.get("base_ranks")),  # trials of before had none
        "scaling": scaling,
        "rank_commands": rank_count.typed_commands(document["command"], (point.ranks for point in scaling)),
    }
    return _of(Trial, values)


def _scaled(entry: Mapping[str, Any]) -> Scaled:
    gains = {name: _maybe(Gain, entry[name]) for name in ("speedup", "efficiency")}
    return _of(Scaled, dict(entry) | gains)


def _of(kind: type[Kind], values: Mapping[str, Any]) -> Kind:
    """A dataclass from the values that it knows: later versions may have written more."""
    names = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in values.items() if name in names})


def _verdict(entry: Mapping[str, Any]) -> VariantResult:
    settings = tuple(
        _of(Setting, setting | {"words": tuple(setting["words"])}) for setting in entry["settings"]
    )
    metric = entry["metric"]
    values = dict(entry) | {
        "variant": Variant(settings, entry.get("ranks")),
        "outcome": Outcome(entry["verdict"]),
        "executions": _executions(entry),
        "over": tuple(entry["over"]),
        "speedup": _maybe(Gain, entry["speedup"]),
        "predicted": _maybe(Gain, entry["predicted"]),
        "equivalence": _maybe(LossEquivalence, entry["loss"]),
        "metric": (metric["original"], metric["variant"]) if metric else None,
    }
    return _of(VariantResult, values)


def _maybe(kind: type[Kind], values: Mapping[str, Any] | None) -> Kind | None:
    return None if values is None else _of(kind, values)


def _executions(entry: Mapping[str, Any]) -> tuple[Execution, ...]:
    return tuple(_execution(values) for values in entry["executions"])


def _execution(entry: Mapping[str, Any]) -> Execution:
    values = dict(entry) | {
        "ending": ExecutionEnd(entry["ending"]),
        "losses": tuple(math.nan if loss is None else loss for loss in entry["losses"]),
        "applied": tuple(map(_place, entry["applied"])),
        "left_alone": tuple(map(_place, entry["left_alone"])),
        "broken": tuple(entry["broken"]),
        "printed": tuple(entry["printed"]),
        "turns_s": tuple(math.nan if turn is None else turn for turn in entry.get("turns_s", ())),
        "may_differ": tuple(entry.get("may_differ", ())),
    }
    return _of(Execution, values)


def _place(entry: Mapping[str, Any]) -> Place:
    return _of(Place, dict(entry) | {"at": _maybe(Location, entry["at"])})

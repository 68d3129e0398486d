"""A Trial as the public JSON document `perfdoctor.trial/1`, described by docs/trial.schema.json, and back.

Fields are added, never renamed. What was not measured is null, never zero. The document is also what is kept
of a trial: it holds everything that the page shows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import geometric_mean
from typing import Any, TypeVar

from perfdoctor import redact, rundir
from perfdoctor.errors import PerfdoctorError
from perfdoctor.model import Gain, Location
from perfdoctor.render import json as public
from perfdoctor.trial import (
    SCHEMA,
    Agreement,
    Ending,
    Execution,
    Outcome,
    Place,
    Scaled,
    Setting,
    Trial,
    Variant,
    Verdict,
)

FILE = "trial.json"

Json = dict[str, Any]
Kind = TypeVar("Kind")


@dataclass(frozen=True)
class Summary:
    """What the executions of one variant measured, taken together; None where none of them did.

    Times and rates are geometric means, like the speedup; memory is the most that any execution took.
    """

    executions: int  # that were measured
    step_s: float | None
    samples_per_s: float | None
    start_s: float | None
    warm_up_s: float | None
    host_bytes: int | None
    device_bytes: int | None


def summary(executions: Sequence[Execution]) -> Summary:
    """What these executions measured together."""
    whole = [execution for execution in executions if execution.ending is Ending.MEASURED]
    return Summary(
        len(whole),
        _mean(execution.step_s for execution in whole),
        _mean(execution.samples_per_s for execution in whole),
        _mean(execution.start_s for execution in whole),
        _mean(execution.warm_up_s for execution in whole),
        max((execution.host_bytes for execution in whole if execution.host_bytes), default=None),
        max((execution.device_bytes for execution in whole if execution.device_bytes), default=None),
    )


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value]
    return geometric_mean(known) if known else None


# ---------------------------------------------------------------- writing


def dumps(trial: Trial) -> bytes:
    """The document as indented UTF-8 text that ends with a newline."""
    return public.text(document(trial))


def write(trial: Trial) -> None:
    """Keep the document in the trial's folder. Raises OSError where that cannot be written to."""
    rundir.write_json(Path(trial.path) / FILE, document(trial))


def document(trial: Trial) -> Json:
    """The document as plain dictionaries and lists; what looks like a secret in the command is left out."""
    return {
        "schema": SCHEMA,
        "command": redact.command(trial.command),
        "path": trial.path,
        "rounds": trial.rounds,
        "steps": trial.steps,
        "warm_up_steps": trial.warm_up_steps,
        "seconds": trial.seconds,
        "interrupted": trial.interrupted,
        "stopped_early": trial.stopped_early,
        "original": _executed(trial.originals),
        "variants": [_variant(verdict) for verdict in trial.verdicts],
        "kept": list(trial.kept),
        "notes": list(trial.notes),
        "cwd": trial.cwd,
        "base_ranks": trial.base.ranks,
        "scaling": [asdict(point) for point in trial.scaling],
        "exit_code": trial.exit_code,
    }


def _variant(verdict: Verdict) -> Json:
    before_after = ("original", "variant")
    return {
        "tweaks": [" ".join(setting.words) for setting in verdict.variant.settings],
        "ranks": verdict.variant.ranks,
        "verdict": verdict.outcome.value,
        "because": verdict.because,
        "speedup": asdict(verdict.speedup) if verdict.speedup else None,
        "confidence": verdict.confidence,
        "over": list(verdict.over),
        "per": verdict.per,
        "predicted": asdict(verdict.predicted) if verdict.predicted else None,
        "loss": asdict(verdict.agreement) if verdict.agreement else None,
        "metric": dict(zip(before_after, verdict.metric, strict=True)) if verdict.metric else None,
        "pays_off_steps": verdict.pays_off_steps,
        "settings": [asdict(setting) for setting in verdict.variant.settings],
        **_executed(verdict.executions),
    }


def _executed(executions: Sequence[Execution]) -> Json:
    return {
        "measured": asdict(summary(executions)),
        "executions": [asdict(execution) | {"ending": execution.ending.value} for execution in executions],
    }


# ---------------------------------------------------------------- reading


def read(folder: Path) -> Trial:
    """The trial that is kept in a folder. Raises PerfdoctorError where there is none that can be read."""
    found = rundir.read_json(folder / FILE)
    if found is not None and found.get("schema") == SCHEMA:
        try:
            return trial_of(found)
        except (KeyError, TypeError, ValueError):
            pass  # damaged: said below
    raise PerfdoctorError(
        f"{folder} holds no trial that can be read", "perfdoctor report --trials lists them"
    )


def trial_of(document: Mapping[str, Any]) -> Trial:
    """The Trial that a document tells of. Raises KeyError, TypeError or ValueError where it is damaged."""
    values = dict(document) | {
        "command": tuple(document["command"]),
        "originals": _executions(document["original"]),
        "verdicts": tuple(_verdict(entry) for entry in document["variants"]),
        "notes": tuple(document["notes"]),
        "kept": tuple(document["kept"]),
        "base": Variant(ranks=document.get("base_ranks")),  # trials of before had none
        "scaling": tuple(map(_scaled, document.get("scaling", ()))),
    }
    return _of(Trial, values)


def _scaled(entry: Mapping[str, Any]) -> Scaled:
    gains = {name: _maybe(Gain, entry[name]) for name in ("speedup", "efficiency")}
    return _of(Scaled, dict(entry) | gains)


def _of(kind: type[Kind], values: Mapping[str, Any]) -> Kind:
    """A dataclass from the values that it knows: later versions may have written more."""
    known = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in values.items() if name in known})


def _verdict(entry: Mapping[str, Any]) -> Verdict:
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
        "agreement": _maybe(Agreement, entry["loss"]),
        "metric": (metric["original"], metric["variant"]) if metric else None,
    }
    return _of(Verdict, values)


def _maybe(kind: type[Kind], values: Mapping[str, Any] | None) -> Kind | None:
    return None if values is None else _of(kind, values)


def _executions(entry: Mapping[str, Any]) -> tuple[Execution, ...]:
    return tuple(_execution(values) for values in entry["executions"])


def _execution(entry: Mapping[str, Any]) -> Execution:
    values = dict(entry) | {
        "ending": Ending(entry["ending"]),
        "losses": tuple(math.nan if loss is None else loss for loss in entry["losses"]),
        "applied": tuple(map(_place, entry["applied"])),
        "left_alone": tuple(map(_place, entry["left_alone"])),
        "broken": tuple(entry["broken"]),
        "printed": tuple(entry["printed"]),
        "may_differ": tuple(entry.get("may_differ", ())),
    }
    return _of(Execution, values)


def _place(entry: Mapping[str, Any]) -> Place:
    return _of(Place, dict(entry) | {"at": _maybe(Location, entry["at"])})

"""What a trial tells of predictions, for the history of this machine."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

from perfdoctor.errors import PerfdoctorError
from perfdoctor.model.history import TriedChange
from perfdoctor.model.trial import Trial
from perfdoctor.redaction import redact
from perfdoctor.watch import command
from perfdoctor.watch.machine import history

ID_BYTES = 8


def note(trial: Trial) -> None:
    """Add what was predicted and measured to the history. Raises OSError where that cannot be written."""
    history.add(of(trial, time.time()))


def of(trial: Trial, epoch_s: float) -> tuple[TriedChange, ...]:
    """The variants that were predicted, and compared with the original."""
    script, script_id = _script(trial)
    return tuple(
        TriedChange(
            epoch_s,
            script,
            script_id,
            tuple(" ".join(redact.command(setting.words)) for setting in result.variant.settings),
            result.modelled.acts_on,
            result.modelled.device,
            result.modelled.gain,
            result.predicted,
            result.speedup,
            result.outcome,
        )
        for result in trial.verdicts
        if not result.over and result.modelled and result.predicted and result.speedup
    )


def _script(trial: Trial) -> tuple[str, str]:
    """What a trial's script is called, and what tells it from others of that name: no path is kept."""
    try:
        started = command.resolve(trial.command, os.environ)
        name, script = started.name, started.script
    except PerfdoctorError:  # its program has gone since
        name, script = Path(trial.command[0]).stem, None
    place = os.path.abspath(Path(trial.cwd) / (script or name))
    shown = redact.text(name).encode("utf-8", "backslashreplace").decode()
    return shown, hashlib.blake2b(os.fsencode(place), digest_size=ID_BYTES).hexdigest()

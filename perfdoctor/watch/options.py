"""What `perfdoctor run` was asked for, and how a trial runs a command; and what the probe is told of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from perfdoctor.model.dataclass import dataclass
from perfdoctor.watch import scheduler_task


@dataclass(frozen=True)
class TrialOptions:
    """How a command runs for a trial: in a folder given, its output in a file, seeded, its writes caught."""

    path: Path  # the run directory of this execution, made here
    log: Path
    seed: int
    max_training_s: float | None = None  # since the first step
    warm_up_updates: int | None = None  # after which measuring begins; None: all is measured
    before: tuple[str, ...] = ()  # words that start the command in a view of the file system
    environ: Mapping[str, str] = field(default_factory=dict)
    protect: Mapping[str, Any] = field(default_factory=dict)  # how the probe keeps the user's files
    watched: bool = False  # what ranks exchange is recorded, too: not steps and losses alone
    apart: bool = False  # in a session of its own, so that all of it can rest
    parks: bool = False  # with a device that has nothing to do, where its turns end: see wire/turns.py


@dataclass(frozen=True)
class Options:
    """What `perfdoctor run` was asked for."""

    max_steps: int | None = None
    max_seconds: float | None = None
    stop: bool = False  # end the script with the watch
    out: str | None = None  # the folder that holds runs
    profiler: bool = True
    profiler_share: float = 0.01  # of the time since the first step, for all windows together
    stacks: bool = True
    loader: Mapping[str, Any] | None = None  # measure a DataLoader, with these options, instead of training
    tweaks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # of trial.Variant.tweaks
    trial: TrialOptions | None = None
    keep_arguments: bool = False  # secrets of the command line, too
    task: scheduler_task.SchedulerTask | None = None  # of a job whose launcher has started one of us for each


def config(options: Options) -> dict[str, Any]:
    """What the probe is told in config.json."""
    return {
        "watcher_pid": os.getpid(),  # whom a system that asks lets look into the command
        "max_steps": options.max_steps,
        "max_seconds": options.max_seconds,
        "stacks": options.stacks,
        "profiler": options.profiler,
        "profiler_share": options.profiler_share,
        "loader": options.loader,
        "tweaks": options.tweaks,
        "trial": _trial(options.trial),
        "protect": None if options.trial is None else options.trial.protect,
    }


def _trial(trial: TrialOptions | None) -> dict[str, Any] | None:
    if trial is None:
        return None
    return {"seed": trial.seed, "watched": trial.watched, "warm_up_updates": trial.warm_up_updates}

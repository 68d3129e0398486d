"""Begins the probe in a process that has just imported torch."""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Dict

from . import (
    asides,
    budget,
    foreign,
    freshness,
    imports,
    loader,
    losses,
    patch,
    record,
    sampler,
    session,
    steps,
    where,
    window,
    windows,
    writer,
)

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")


def begin(run_dir: str) -> None:
    """Turn on what applies to this process; never raises."""
    patch.log_to(os.path.join(run_dir, "probe.log"))
    patch.guarded("start", _begin)(run_dir)


def _begin(run_dir: str) -> None:
    torch = sys.modules["torch"]
    here = session.Session(run_dir, _options(run_dir))
    _boot(here, torch)
    for module in (
        asides,
        budget,
        foreign,
        freshness,
        imports,
        loader,
        losses,
        patch,
        record,
        sampler,
        session,
        steps,
        where,
        window,
        windows,
        writer,
    ):
        patch.guarded("compiler", patch.hide_module)(module)
    hooks = steps.Steps(here, torch)
    steps.install(hooks)
    aside = asides.Asides(here, torch)
    asides.install(aside)
    hooks.on_device = aside.device_seen
    loader.install(loader.Loaders(here, hooks, torch))
    here.on_end.append(hooks.pulse)
    if here.options.get("profiler", True):
        hooks.at_update = windows.watch(here, torch, lambda: hooks.largest).border


def _options(run_dir: str) -> Dict[str, Any]:
    try:
        with open(os.path.join(run_dir, "config.json"), encoding="utf-8") as file:
            options = json.load(file)
    except (OSError, ValueError):
        return {}
    return options if isinstance(options, dict) else {}


def _boot(here: session.Session, torch: Any) -> None:
    here.append(
        "boot",
        file="boot.jsonl",
        python=".".join(str(part) for part in sys.version_info[:3]),
        torch=str(torch.__version__),
        executable=sys.executable,
        prefix=sys.prefix,
        ppid=os.getppid(),
        begin_ns=here.born_ns,
        threads=torch.get_num_threads(),
        threads_env={name: os.environ[name] for name in THREAD_VARIABLES if name in os.environ},
    )

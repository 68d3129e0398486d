"""Begins the probe in a process that has just imported torch."""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Dict

from . import (
    asides,
    built,
    calls,
    collectives,
    debugging,
    job,
    loader,
    orphans,
    padding,
    patch,
    pauses,
    retained,
    session,
    settings,
    steps,
    windows,
    zeroing,
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
    job.watch_failures(here.append)
    tweaked, tried = here.options.get("tweaks"), here.options.get("trial")
    if tweaked:
        from . import tweak  # here: most runs do without, and start sooner
    if tried:
        from . import trial
    _hide_from_compiler()
    if tweaked:
        tweak.apply_all(here, torch)
    hooks = steps.Steps(here, torch)
    if here.options.get("loader"):
        from . import loaderonly  # here: of no use to a run that trains

        loaderonly.install(loaderonly.Only(here, loader.Loaders(here, hooks, torch), torch))
        return
    if tried:
        trial.seed(tried, torch)
        trial.install(tried, here, hooks, torch)
    steps.install(hooks)
    if tried and not tried.get("watched"):
        loader.install(loader.Loaders(here, hooks, torch))
        return
    aside = asides.Asides(here, torch)
    asides.install(aside)
    hooks.on_device = aside.device_seen
    loaders = loader.Loaders(here, hooks, torch)
    loader.install(loaders)
    here.on_end.append(hooks.pulse)
    _watch_models(here, hooks, loaders, torch)
    modes = _watch_beside(here, hooks, torch)
    if here.options.get("profiler", True):
        watched = windows.watch(here, torch, lambda: hooks.largest)
        hooks.at_update, modes.foreign = watched.border, watched.foreign


def _hide_from_compiler() -> None:
    """Keep torch.compile away from all modules of the probe."""
    ours = [module for name, module in sys.modules.items() if name.startswith(f"{__package__}.")]
    for module in ours:
        patch.guarded("compiler", patch.hide_module)(module)


def _watch_models(here: session.Session, hooks: steps.Steps, loaders: loader.Loaders, torch: Any) -> None:
    """Watch what is built, what it is given and how it acts at a few steps, what ranks exchange."""
    constructors = built.Built(here, torch)
    built.install(constructors)
    between = collectives.Collectives(here, hooks)
    collectives.install(between)
    constructors.on_group = patch.guarded("grad_sync", between.group_made)
    constructors.on_parallel = patch.guarded("gradients", between.model_made)
    hooks.on_root = patch.guarded("root", constructors.root_seen)
    hooks.on_optimizer = patch.guarded("optimizer_built", constructors.optimizer_seen)
    called = calls.Calls(hooks, constructors)
    hooks.looks.add("calls", called.ask)
    rows = padding.Padding(here, torch)
    loaders.on_batch = patch.guarded("padding", rows.delivered)
    called.on_inputs = patch.guarded("padding", rows.called)
    hooks.looks.add("settings", settings.Settings(hooks).look)
    hooks.looks.add("orphans", orphans.Orphans(hooks, constructors.optimizers).look)


def _watch_beside(here: session.Session, hooks: steps.Steps, torch: Any) -> debugging.DebugModes:
    """Watch what goes on between the steps: looked at rarely, written once a second."""
    modes = debugging.DebugModes(here, torch)
    debugging.install(modes)
    collector = pauses.Pauses(here)
    pauses.install(collector)
    hooks.looks.add("debug mode", modes.look)
    hooks.looks.add("retained", retained.Retained(here, torch).look)
    zeros = zeroing.make(here, torch)
    hooks.at_pulse += [hooks.clearing.pulse, modes.pulse, collector.pulse, zeros.pulse]
    return modes


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
        job=job.identity(),
    )

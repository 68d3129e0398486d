"""Begins the probe in a process that has just imported torch."""

from __future__ import annotations

import json
import os
import sys
from types import ModuleType
from typing import Any, Dict, List

from ..wire import names, rank_identity
from ..wire.events.process import BootEvent
from . import compile_question, constructor_lines, observer, patch, rank_failures, session
from .loader import loader
from .profiler import users_profiler, windows
from .ranks import collectives
from .steps import steps

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")


def begin(run_dir: str) -> None:
    """Turn on what applies to this process; never raises."""
    patch.log_to(os.path.join(run_dir, names.PROBE_LOG))
    patch.guarded("start", _begin)(run_dir)


def _begin(run_dir: str) -> None:
    torch = sys.modules["torch"]
    here = session.Session(run_dir, _options(run_dir))
    _boot(here, torch)
    rank_failures.watch_failures(here.append)
    tweaked, tried = here.options.get("tweaks"), here.options.get("trial")
    measured = here.options.get("loader")
    if tweaked:
        from .trial import tweak  # here: most runs do without, and start sooner
    if tried:
        from .trial import execution
    observers = [] if measured or (tried and not tried.get("watched")) else observer.load_all()
    _hide_from_compiler()
    if tweaked:
        tweak.apply_all(here, torch)
    hooks = steps.StepTracker(here, torch)
    if measured:
        from .loader import benchmark_session  # here: of no use to a run that trains

        benchmark_session.install(benchmark_session.Only(here, loader.Loaders(here, hooks, torch), torch))
        return
    if tried:
        execution.seed(tried, torch)
        execution.install(tried, here, hooks, torch)
    steps.install(hooks)
    loader.install(loader.Loaders(here, hooks, torch))
    if observers:
        _observe(hooks, observers)


def _observe(hooks: steps.StepTracker, observers: List[ModuleType]) -> None:
    """Watch what goes on beside the steps, what ranks exchange, and open profiler windows."""
    here, torch = hooks.session, hooks.torch
    here.on_end.append(hooks.thread.pulse)
    between = collectives.CollectiveWrappers(here, hooks)
    collectives.install(between)
    hooks.moments.process_group.append(patch.guarded("grad_sync", between.group_made))
    hooks.moments.ddp.append(patch.guarded("gradients", between.model_made))
    hooks.moments.second.append(hooks.clearing.pulse)
    profilers = users_profiler.UsersProfilers()
    watch = observer.Watch(hooks, constructor_lines.watch(torch), profilers)
    observer.begin_all(observers, watch)
    if here.options.get("profiler", True):
        window = windows.watch(here, torch, profilers, lambda: hooks.modules.largest)
        watch.on_looked_at_calls("window", window.function_calls)
        hooks.moments.border = window.border


def _hide_from_compiler() -> None:
    """Keep torch.compile away from all modules of the probe, and from those that it writes with."""
    root = __package__.rpartition(".")[0] if __package__ else ""
    ours = f"{root}.probe.", f"{root}.wire."
    for module in [module for name, module in sys.modules.items() if name.startswith(ours)]:
        patch.guarded("compiler", compile_question.hide_module)(module)


def _options(run_dir: str) -> Dict[str, Any]:
    try:
        with open(os.path.join(run_dir, names.CONFIG), encoding="utf-8") as file:
            options = json.load(file)
    except (OSError, ValueError):
        return {}
    return options if isinstance(options, dict) else {}


def _boot(here: session.Session, torch: Any) -> None:
    here.append(
        BootEvent(
            python=".".join(str(part) for part in sys.version_info[:3]),
            torch=str(torch.__version__),
            executable=sys.executable,
            prefix=sys.prefix,
            ppid=os.getppid(),
            begin_ns=here.born_ns,
            threads=torch.get_num_threads(),
            threads_env={name: os.environ[name] for name in THREAD_VARIABLES if name in os.environ},
            job=rank_identity.identity(),
        ),
        file=names.BOOT,
    )

"""Applies a tweak as a run does: in this process with every patch undone afterwards, or to a script of its own.

    with applied("workers", 2) as told:
        loader = DataLoader(...)
    assert told.applied == [...]

Tweaks that act together are nested: the outer one is applied first, as the first on a command line is.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from perfdoctor.probe import patch
from perfdoctor.probe.trial import tweak
from perfdoctor.runs import records as recorded
from perfdoctor.watch import launch
from perfdoctor.watch.options import Options, TrialOptions
from perfdoctor.wire.events import Event
from tests.support import sessions

torch = pytest.importorskip("torch")

SEED = 7
TIMEOUT_S = 120.0
Json = dict[str, Any]


@dataclass
class Told:
    """What a tweak told: a dict for each place, with `what` and `at`, and `was` and `now` or `because`."""

    events: list[Json] = field(default_factory=list)

    @property
    def applied(self) -> list[Json]:
        """The places that were changed."""
        return self._of("applied")

    @property
    def left_alone(self) -> list[Json]:
        """The places that were not."""
        return self._of("left_alone")

    @property
    def withdrawn(self) -> list[Json]:
        """The places that were changed, and from some moment on no longer."""
        return self._of("withdrawn")

    def _of(self, outcome: str) -> list[Json]:
        beside = ("event", "tweak", "outcome", "t_ns", "pid")
        return [
            {key: value for key, value in event.items() if key not in beside}
            for event in self.events
            if event["event"] == "tweak" and event["outcome"] == outcome
        ]


class _Session(sessions.Session):
    """The session of a process that trains and is no loader worker."""

    def __init__(self) -> None:
        super().__init__()
        self.options: Json = {}
        self.pid = os.getpid()
        self.on_end: list[Callable[[], None]] = []

    def in_worker(self) -> bool:
        return torch.utils.data.get_worker_info() is not None

    def append(self, event: Event, file: str = "") -> None:
        self.write(event)


@contextmanager
def applied(name: str, *value: Any, **extras: Any) -> Iterator[Told]:
    """The tweak of the module `name` in this process; on leaving, everything is as it was.

    What the tweak itself runs into, and would only turn it off in a run, fails the test.
    """
    session = _Session()
    told = Told(session.events)
    with ExitStack() as undone:
        undone.enter_context(_attributes_restored())
        undone.enter_context(_torch_restored())
        undone.enter_context(mock.patch.dict(patch.turned_off, clear=True))
        undone.callback(_unhurt)
        function = tweak.function_of(import_module(f"perfdoctor.tweaks.{name}"))
        _Here(name, session, undone).start(function, *value, **extras)
        yield told


def _unhurt() -> None:
    assert not patch.broken()


class _Here(tweak.Tweaking):
    """Imports that come after the test are none of this tweak's business."""

    def __init__(self, name: str, session: Any, undone: ExitStack) -> None:
        super().__init__(name, session, torch)
        self._open = True
        undone.callback(self._close)

    def _close(self) -> None:
        self._open = False

    def on_import(self, module: str, callback: Callable[[Any], object]) -> None:
        super().on_import(module, lambda loaded: self._open and callback(loaded))


@contextmanager
def _attributes_restored() -> Iterator[None]:
    """What is replaced by the one module that may replace anything is put back, the last first."""
    with ExitStack() as stack:

        def recording(replace: Callable[..., None]) -> Callable[..., None]:
            def call(owner: Any, attribute: str, *rest: Any, **named: Any) -> None:
                stack.callback(_put_back, owner, attribute, dict(vars(owner)))
                replace(owner, attribute, *rest, **named)

            return call

        with (
            mock.patch.object(patch, "replace", recording(patch.replace)),
            mock.patch.object(patch, "wrap", recording(patch.wrap)),
        ):
            yield


def _put_back(owner: Any, attribute: str, before: Mapping[str, Any]) -> None:
    if attribute in before:
        setattr(owner, attribute, before[attribute])
    elif attribute in vars(owner):
        delattr(owner, attribute)


@contextmanager
def _torch_restored() -> Iterator[None]:
    """The settings that hold for the whole process, and the hooks that hold for every optimizer."""
    import torch.optim.optimizer as optimizers  # the package's own name is a class

    backends = torch.backends
    flags = [
        (backends.cudnn, name)
        for name in ("enabled", "benchmark", "benchmark_limit", "deterministic", "allow_tf32")
    ]
    flags += [(backends.cuda.matmul, "allow_tf32")]
    kept = [(owner, name, getattr(owner, name)) for owner, name in flags]
    hooks = (optimizers._global_optimizer_pre_hooks, optimizers._global_optimizer_post_hooks)
    known = [dict(table) for table in hooks]
    precision = torch.get_float32_matmul_precision()
    threads, dtype, grad = torch.get_num_threads(), torch.get_default_dtype(), torch.is_grad_enabled()
    anomalies, nans = torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()
    collecting, thresholds = gc.isenabled(), gc.get_threshold()
    try:
        yield
    finally:
        for owner, name, was in kept:
            setattr(owner, name, was)
        torch.set_float32_matmul_precision(precision)
        for table, was in zip(hooks, known, strict=True):
            table.clear()
            table.update(was)
        torch.set_num_threads(threads)
        torch.set_default_dtype(dtype)
        torch.set_grad_enabled(grad)
        torch.autograd.set_detect_anomaly(anomalies, nans)
        gc.unfreeze()
        gc.set_threshold(*thresholds)
        (gc.enable if collecting else gc.disable)()


@dataclass(frozen=True)
class Ran:
    """One execution of a script as a trial runs it."""

    status: int
    printed: str  # stdout and stderr
    told: Told  # of all its tweaks and ranks
    losses: tuple[float, ...]  # of the updates of rank 0
    records: recorded.RunRecords


def ran(
    folder: Path, code: str, tweaks: Mapping[str, Mapping[str, Any]], steps: int | None = None, *words: str
) -> Ran:
    """Run `code` as a script in `folder` with {module's name: {"value": 2}}, ended after `steps` updates.

    Without tweaks it is the original of the trial: seeded, and ended, alike. What broke in the probe fails the test.
    """
    path = folder / f"execution{sum(1 for _ in folder.glob('execution*.txt'))}"
    log = path.with_suffix(".txt")
    script = folder / "script.py"
    script.write_text(textwrap.dedent(code))
    options = Options(
        max_steps=steps,
        max_seconds=TIMEOUT_S,
        stop=True,
        profiler=False,
        stacks=False,
        tweaks=tweaks,
        trial=TrialOptions(path, log, SEED),
    )
    outcome = launch.run([sys.executable, str(script), *words], options, sample=lambda *_: _NoSamples())
    troubles = path / "probe.log"
    assert not troubles.exists(), troubles.read_text()
    records = recorded.read(path)
    events = [json.loads(line) for file in sorted(path.glob("events.*")) for line in file.open()]
    rows = records.ranks[0].steps if 0 in records.ranks else None
    losses = () if rows is None else tuple(float(loss) for loss in rows["loss"][rows["marker"] == 4])
    return Ran(outcome.status, log.read_text(), Told(events), losses, records)


class _NoSamples:
    def stop(self) -> None:
        """Nothing was begun."""

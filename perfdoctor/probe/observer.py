"""How a file in `observers/` says what it watches, and how those files are found.

An observer is one file with one function marked by `@observer`. It is called once in each process that
imports torch, with a `Watch`, and hooks in where it has something to see. What it sees it writes as an event.
"""

from __future__ import annotations

import os
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Callable, List

from ..wire.events import Event
from . import marked, on_import, patch
from .looks.calls import CallLooks, CallViewer
from .looks.op_recording import unseen
from .moments import StepViewer
from .recorder import Recorder
from .session import Session
from .wrapping import Args, Kwargs

if TYPE_CHECKING:
    from .constructor_lines import ConstructorLines
    from .profiler.users_profiler import UsersProfilers
    from .steps.steps import StepTracker

FOLDER = "observers"
MARK = "__observer__"


def observer(function: Callable[[Watch], None]) -> Callable[[Watch], None]:
    """Mark the one function of an observer's file."""
    setattr(function, MARK, True)
    return function


class Watch:
    """What an observer works with: torch, where events go, and the moments at which it can be called.

    Each function that it hands in is guarded: an error of its own ends that part of it alone.
    """

    def __init__(self, steps: StepTracker, lines: ConstructorLines, profilers: UsersProfilers) -> None:
        self.session: Session = steps.session
        self.torch: Any = steps.torch
        self.steps = steps
        self.lines = lines  # where the script constructed modules and optimizers
        self.profilers = profilers  # of the script itself
        self.moments = steps.moments
        self.looks = CallLooks(steps, profilers)

    def write(self, event: Event) -> None:
        """Write one event into the records of this process."""
        self.session.write(event)

    def in_steps(self) -> bool:
        """Whether the calling thread is the one that trains, and has made its first step."""
        recorder = self.session.recording() if self.session.recorder is not None else None
        return recorder is not None and recorder.written > 0

    def wrap(
        self,
        owner: Any,
        attribute: str,
        before: patch.Before,
        after: patch.After,
        name: str,
        method: bool = False,
    ) -> None:
        """Call `before` and `after` around `owner.attribute`: see patch.wrap. Stack samples show `name`."""
        patch.wrap(owner, attribute, before, after, name, method)

    def on_import(self, module: str, name: str, callback: Callable[[Any], object]) -> None:
        """Call `callback(module)` once the script has imported it; now, if it has."""
        on_import.on_import(module, patch.guarded(name, callback))

    def before_some_backwards(self, name: str, sample: Callable[[Recorder, Any], None]) -> None:
        """Call `sample(recorder, loss)` before a few of the backwards: see SamplingSchedule."""
        self.steps.schedule.add(name, sample)

    def on_nested_backward(self, name: str, call: Callable[[], None]) -> None:
        """Call `call()` before a backward that begins inside another one, in whichever thread it does."""
        self.moments.nested_backward.append(patch.guarded(name, call))

    def each_second(self, name: str, write: Callable[[], None]) -> None:
        """Call `write()` about once a second while the script trains, and at its end."""
        self.moments.second.append(patch.guarded(name, write))

    def on_device(self, name: str, call: Callable[[Any], None]) -> None:
        """Call `call(device)` with each device that trains."""
        self.moments.device.append(patch.guarded(name, call))

    def on_looked_at_calls(self, name: str, viewer: CallViewer) -> None:
        """Show `viewer` each call of torch's functions in a few pairs of steps: see CallLooks."""
        self.looks.add(name, viewer)

    def on_model(self, name: str, call: Callable[[Any, int], None]) -> None:
        """Call `call(module, modules inside)` when the script calls a model for the first time."""
        self.moments.model.append(patch.guarded(name, unseen(call)))

    def on_evaluation(self, name: str, call: Callable[[Args, Kwargs, int], None]) -> Callable[[], None]:
        """Call `call(args, kwargs, ns)` after each call of a model without gradients, or in eval mode.

        A policy makes hundreds of them in a step, and each takes some microseconds longer until what is
        returned here is called, which ends it.
        """
        moments, shown = self.moments, patch.guarded(name, unseen(call))
        moments.evaluated = [*moments.evaluated, shown]

        def end() -> None:
            moments.evaluated = [one for one in moments.evaluated if one is not shown]

        return end

    def on_varied_evaluation(self, name: str, call: Callable[[Args, Kwargs, int], None]) -> None:
        """The same without those calls whose input has the shapes that it had in the two calls before."""
        self.moments.varied.append(patch.guarded(name, unseen(call)))

    def on_followed_call(self, name: str, call: Callable[[Args, Kwargs], None]) -> None:
        """Call `call(args, kwargs)` after each call that trains of a model that is followed: see `follow`."""
        self.moments.followed.append(patch.guarded(name, unseen(call)))

    def follow(self, module: Any) -> None:
        """Have each call of a model that trains shown: it takes some microseconds longer from then on."""
        self.steps.modules.follow(module)

    def on_sampled_call(self, name: str, call: Callable[[Args, Kwargs], None]) -> None:
        """Call `call(args, kwargs)` before a model that trains is called, in sampled steps."""
        self.moments.sampled_call.append(patch.guarded(name, unseen(call)))

    def on_sampled_module(self, name: str, call: Callable[[Any], None]) -> None:
        """Call `call(module)` before any module is called, inside of others too, in sampled steps."""
        self.moments.sampled_module.append(patch.guarded(name, unseen(call)))

    def on_sampled_steps(self, viewer: StepViewer) -> None:
        """Show `viewer` each call of a module in sampled steps; its functions are guarded already."""
        self.moments.sampled_steps.append(viewer)

    def on_update(self, name: str, call: Callable[[Recorder, int], None]) -> None:
        """Call `call(recorder, number of the optimizer)` after each update, from now on."""
        self.moments.update = [*self.moments.update, patch.guarded(name, call)]

    def on_optimizer(self, name: str, call: Callable[[Any, int], None]) -> None:
        """Call `call(optimizer, number)` when an optimizer steps for the first time."""
        self.moments.optimizer.append(patch.guarded(name, unseen(call)))

    def on_batch(self, name: str, call: Callable[[int, Any], None]) -> None:
        """Call `call(number of the loader, batch)` with a few of the batches that each loader delivers."""
        self.moments.batch.append(patch.guarded(name, unseen(call)))

    def on_fetcher(self, name: str, call: Callable[[int, int, Any], None]) -> None:
        """Call `call(number of the loader, its epochs before, fetcher)` with what reads for a loader.

        A fetcher is made in each process that prepares batches: in the one that trains for each epoch, in
        workers that live on for each epoch as well; those know only of epochs before they were started.
        """
        self.moments.fetcher.append(patch.guarded(name, call))

    def on_fetch(self, name: str, before: patch.Before, after: patch.After, turn: Callable[[], int]) -> None:
        """Call `before` and `after` around the making of batch number `turn()`, and of some others.

        The number is `steps.fetches.count`. Batches that others look at are shown as well.
        """
        for kind in self.steps.fetches.kinds():
            self.steps.fetches.add(kind, before, after, name)
        self.steps.fetches.due(name, turn)

    def on_ddp(self, name: str, call: Callable[[Any], None]) -> None:
        """Call `call(model)` with each DistributedDataParallel once it is constructed."""
        self.moments.ddp.append(patch.guarded(name, call))


def load_all() -> List[ModuleType]:
    """Import every file of the folder; one that cannot be imported is left out, with a line in probe.log."""
    folder = os.path.join(os.path.dirname(__file__), FOLDER)
    names = sorted(name[:-3] for name in os.listdir(folder) if name.endswith(".py") and name[0] != "_")
    modules = [patch.guarded(name, import_module)(f"{__package__}.{FOLDER}.{name}") for name in names]
    return [module for module in modules if module is not None]


def begin_all(modules: List[ModuleType], watch: Watch) -> None:
    """Have every observer hook in; one that fails is turned off."""
    for module in modules:
        patch.guarded(module.__name__.rpartition(".")[2], _begin)(module, watch)


def _begin(module: ModuleType, watch: Watch) -> None:
    marked.the_one(module, MARK, "@observer")(watch)

"""DataLoaders as a script builds them: the arguments of their constructor, and their settings once they are
built.

The number of workers is set by argument, everything that depends on it is set on the loader once it is built:
so the order in which two tweaks are applied does not matter.
"""

from __future__ import annotations

import inspect
import sys
import weakref
from typing import Any, Callable, Dict, Optional, Set

from ..probe.loader.loader import STATEFUL
from ..probe.trial.tweak import Tweaking, WatchedRun
from ..probe.user_frames import user_line

Given = Dict[str, Any]

CALLS = ("DataLoader", "StatefulDataLoader", "__init__")  # by which scripts and their subclasses build them
BUILT = "_iterator"  # what torch's constructor sets last


def on_arguments(here: Tweaking, change: Callable[[Given], bool]) -> None:
    """Let `change` alter the arguments of a DataLoader's constructor, by name; it returns whether it did.

    A subclass may pass on other arguments: only the call that reaches torch's own constructor counts.
    Loaders that a worker builds for itself stay as they are.
    """

    def alter(loader: type) -> None:
        signature = inspect.signature(vars(loader)["__init__"])

        def before(args: Any, kwargs: Any) -> Any:
            if here.session.in_worker():
                return None
            try:
                given = dict(signature.bind(*args, **kwargs).arguments)
            except TypeError:
                return None  # the script is about to learn that from torch
            del given["self"]
            return (args[:1], given, None) if change(given) else None

        here.alter(loader, "__init__", before)

    each_kind(here, alter)


def on_built(here: Tweaking, look: Callable[[Any], None]) -> None:
    """Call `look(loader)` for each DataLoader once its constructor is done."""

    def before(args: Any, kwargs: Any) -> Any:
        return None if here.session.in_worker() else (args, kwargs, args[0])

    def after(loader: Any, result: Any) -> Any:
        if BUILT in vars(loader):
            look(loader)
        return result

    each_kind(here, lambda loader: here.alter(loader, "__init__", before, after))


def predicted(run: WatchedRun, change: Callable[[Any], Any]) -> Any:
    """What `change(loader)` says of the training loader as it was measured; nothing changes without one."""
    if not run.has_loader:
        return run.changes()
    return change(run.loader) if run.loader is not None and run.modelled else None


def each_kind(here: Tweaking, alter: Callable[[type], None]) -> None:
    """Call `alter` with torch's DataLoader, and with torchdata's once the script has imported it."""
    alter(here.torch.utils.data.DataLoader)
    here.on_import(STATEFUL, lambda module: alter(module.StatefulDataLoader))


def set_each(
    here: Tweaking,
    name: str,
    value: Any,
    reason: Callable[[Any], Optional[str]],
    then: Callable[[Any], None] = lambda loader: None,
) -> None:
    """Set `name` of each DataLoader to `value`, unless `reason(loader)` says why not; then call
    `then(loader)`.

    A library may rebuild the user's loader: the copy has the setting already, and is not reported again.
    """
    changed: Set[int] = set()  # ids of their datasets

    def look(loader: Any) -> None:
        was, because = getattr(loader, name), reason(loader)
        if because is None and was == value:
            if id(loader.dataset) in changed:
                then(loader)
                return
            because = f"{name} is already {value}"
        if because is not None:
            here.left_alone("DataLoader", because)
            return
        vars(loader)[name] = value  # torch allows some of these settings in the constructor only
        changed.add(id(loader.dataset))
        here.applied(f"DataLoader {name}", was, value)
        then(loader)

    on_built(here, look)


def keeping_epochs(here: Tweaking) -> Callable[[Any], None]:
    """Returns a function to call with each loader whose workers were made to persist.

    Starting workers draws a number from the generator that shuffles, and workers that persist are started
    once: from the second epoch on the same seed would give another order. The number is drawn all the same.

    Workers that persist serve one iterator, which begins again: two that a script goes over at the same time,
    as in `zip(loader, loader)`, would share an epoch. Such a loader gets its own setting back.
    """
    torch = here.torch
    loaders: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()  # the line that built each

    def built(loader: Any) -> None:
        loaders[loader] = user_line()

    def before_iter(args: Any, kwargs: Any) -> None:
        loader = args[0]
        if loader in loaders and _is_in_use(loader):
            # The iterator that is in use keeps its workers until nobody holds it any more.
            vars(loader).update({"persistent_workers": False, BUILT: None})
            because = (
                "the script begins to go over it again while it holds an iterator that is not at its end"
            )
            here.withdrawn("DataLoader persistent_workers", because, loaders.pop(loader))

    def before(args: Any, kwargs: Any) -> Any:
        loader = args[1] if len(args) > 1 else kwargs.get("loader")
        first = args[2] if len(args) > 2 else kwargs.get("first_iter", False)
        return None if first or loader not in loaders else (args, kwargs, loader)

    def after(loader: Any, result: Any) -> Any:
        torch.empty((), dtype=torch.int64).random_(generator=loader.generator)
        return result

    here.alter(torch.utils.data.dataloader._BaseDataLoaderIter, "_reset", before, after)
    each_kind(here, lambda kind: here.alter(kind, "__iter__", before_iter))
    return built


def _is_in_use(loader: Any) -> bool:
    """Whether anybody but the loader holds its iterator, and batches are left in it."""
    kept = vars(loader)[BUILT]
    if kept is None or kept._rcvd_idx >= kept._send_idx:
        return False
    del kept
    return sys.getrefcount(vars(loader)[BUILT]) > 2  # the loader's own, and the argument

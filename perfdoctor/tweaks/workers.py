"""Prepare batches in N worker processes.

## What changes
`num_workers` of each `DataLoader`, whoever builds it: the script, Lightning, the Hugging Face Trainer.
Batches and their order stay the same. `--workers 0` also drops the settings that only workers have: prefetch,
persistence, a time-out, a start method.

The script's own batch sampler works: it runs in the training process, which sends its indices to the workers.
Each worker has a copy of the dataset: running workers do not see later changes of the script to it, and share
the position of files that are open when they start.

## Left alone
- A loader over an `IterableDataset`, unless the code of its `__iter__` calls `get_worker_info` and uses
  `num_workers`: each worker would go through all of it. One worker is always right (`--workers 1`).
- A loader that already has as many workers.

## Same result
Bit for bit, unless the dataset draws random numbers, because each worker draws its own; and unless an
`IterableDataset` shards itself, because each worker makes whole batches of its part. Either is detected:
losses that differ no more than other random numbers would make them do not count as a changed result.
"""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import Any, Iterator, List, Set

from ..probe.trial.by_hand import Argument
from ..probe.trial.tweak import BITWISE, Count, Tweaking, WatchedRun, tweak
from ..probe.user_frames import is_users
from ._draws import notice_draws
from ._loaders import CALLS, Given, on_arguments, predicted

ONLY_WITH_WORKERS = ("prefetch_factor", "persistent_workers", "timeout", "multiprocessing_context")
# What a dataset must ask for to take its share. Seeds are asked for in the same place: the first alone says
# little.
SHARING = {"get_worker_info", "num_workers"}
MOST_UNKNOWN = 32  # workers that are started where no run tells how many pay
DRAWS = "the dataset draws random numbers, and each process that prepares batches draws its own"
PARTS = "each worker makes batches of its own part of the dataset"


def predict(run: WatchedRun, count: int) -> Any:
    """That many workers in the model of the step, and for validation; without any, none start in an epoch."""

    def change(loader: Any) -> Any:
        restarts, others = not run.value("--persistent-workers"), run.other_waits(count)
        if count == loader.num_workers:
            return run.changes(others=others)
        if loader.iterable:
            return run.as_advised(restarts=restarts)  # whether it shares itself out is not known
        if count:
            return run.changes(workers=count, others=others, restarts=restarts)
        return run.changes(workers=0, others=others, starts=(run.epoch_waits,) * 3)

    return predicted(run, change)


def choose(run: WatchedRun) -> List[int]:
    """The fewest workers that are nearly as good as any number of them; without a run, as many as cores."""
    count = run.good_workers()
    return [max(1, min(MOST_UNKNOWN, int(run.usable_cores))) if count is None else count]


@tweak(
    "--workers",
    BITWISE,
    Count(0, 512, auto=choose),
    predict=predict,
    acts_on=("data",),
    loader_argument="num_workers",
    edits=[
        Argument(
            *CALLS,
            name="num_workers",
            place=5,
            only_with=ONLY_WITH_WORKERS,
            trainer="dataloader_num_workers",
        )
    ],
)
def workers(here: Tweaking, count: int) -> None:
    """Give every DataLoader `count` worker processes."""
    iterable = here.torch.utils.data.IterableDataset
    changed: Set[int] = set()  # ids of datasets: a library may build a loader anew from the user's

    def change(given: Given) -> bool:
        dataset, was = given["dataset"], given.get("num_workers", 0)
        if was == count:
            if id(dataset) not in changed:
                here.left_alone("DataLoader", f"num_workers is already {count}")
            return False
        if isinstance(dataset, iterable) and max(was, count) > 1 and not shares_itself_out(dataset):
            here.left_alone("DataLoader", "each worker would go through all of its IterableDataset")
            return False
        changed.add(id(dataset))
        if isinstance(dataset, iterable) and max(was, count) > 1:
            here.may_differ(PARTS)
        here.applied("DataLoader num_workers", was, count)
        given["num_workers"] = count
        if count == 0:
            for name in ONLY_WITH_WORKERS:
                given.pop(name, None)
        return True

    on_arguments(here, change)
    notice_draws(here, DRAWS)


def shares_itself_out(dataset: Any) -> bool:
    """Whether an iterable dataset's own code checks which part of it this worker is to yield.

    Decided by the names in its `__iter__`, and in functions and methods of the same package, or of the
    user's, that these name. A dataset that wraps another one counts as one that does not.
    """
    kind = type(dataset)
    waiting: List[Any] = [inspect.getattr_static(kind, "__iter__", None)]
    seen: Set[Any] = set()
    names: Set[str] = set()
    while waiting:
        function = _function(waiting.pop())
        if function is None or function in seen:
            continue
        seen.add(function)
        if not (is_users(function.__code__.co_filename) or _package(function) == _package(kind)):
            continue
        for name in _names(function.__code__):
            names.add(name)
            waiting += [inspect.getattr_static(kind, name, None), function.__globals__.get(name)]
    return names >= SHARING


def _function(found: Any) -> Any:
    """The function behind a method, a property or a decorator; None where there is none in Python."""
    if isinstance(found, property):
        found = found.fget
    elif isinstance(found, (staticmethod, classmethod)):
        found = found.__func__
    return inspect.unwrap(found) if isinstance(found, FunctionType) else None


def _package(item: Any) -> str:
    return str(item.__module__).partition(".")[0]


def _names(code: Any) -> Iterator[str]:
    """Names that a function uses, those of functions inside it too."""
    yield from code.co_names
    for const in code.co_consts:
        if hasattr(const, "co_names"):
            yield from _names(const)

"""Random numbers that are drawn while batches are prepared, in the training process or in workers."""

from __future__ import annotations

import os
import random
import sys
from typing import Any, Dict, Tuple

from ..probe.trial.tweak import Tweaking

LOOKS = 4  # at the first batches of a process: a dataset that draws random numbers does so for each

# Of workers that persist.
UNSEEDED = "the dataset draws random numbers, and workers that live on are not seeded again in each epoch"


def notice_draws(here: Tweaking, because: str, only_workers: bool = False) -> None:
    """Tell that results may differ, and why, if random numbers are drawn while batches are prepared."""
    looks: Dict[int, int] = {}  # by process: one that is forked begins anew

    def before(args: Any, kwargs: Any) -> Any:
        if only_workers and not here.session.in_worker():
            return None
        looks[os.getpid()] = looks.get(os.getpid(), 0) + 1
        return (args, kwargs, _generators(here.torch)) if looks[os.getpid()] <= LOOKS else None

    def after(states: Any, result: Any) -> Any:
        if _generators(here.torch) != states:
            here.may_differ(because)
        return result

    fetchers = here.torch.utils.data._utils.fetch
    for fetcher in (fetchers._MapDatasetFetcher, fetchers._IterableDatasetFetcher):
        here.alter(fetcher, "fetch", before, after)


def _generators(torch: Any) -> Tuple[Any, ...]:
    """The states of the generators that a dataset draws from, unless it has its own."""
    numpy = sys.modules.get("numpy.random")
    state = None if numpy is None else numpy.get_state()
    return (
        random.getstate(),
        bytes(torch.get_rng_state().tolist()),
        None if state is None else (state[1].tobytes(), *state[2:]),
    )

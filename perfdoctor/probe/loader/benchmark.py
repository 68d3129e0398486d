"""Runs a DataLoader for its own sake: how many batches a second it gives with so many workers.

Twins of the script's loader do the work: each shares its dataset, sampler, collate function and options, and
has a number of workers of its own. What was measured is told at once, a line for each stretch of batches.
"""

from __future__ import annotations

import copy
import itertools
import math
import time
import warnings
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Set

from ...wire.events import Event
from ...wire.events.loader_benchmark import (
    LoadingFailedEvent,
    LoadingMemoryEvent,
    LoadingRepeatsEvent,
    LoadingStartEvent,
    LoadingStopEvent,
    LoadingStretchEvent,
)
from ...wire.events.loaders import DEFAULT_PREFETCH
from . import batch_costs
from .batch_content import batch_size_of
from .batch_costs import Caught, Dry, Stretch

Tell = Callable[[Event], None]
Begin = Callable[[Any], Any]

MAP = 0  # torch's number of the kind of dataset that is read by index
END = object()
PATIENCE_S = 30.0  # a worker that gives nothing for so long is stuck: spawned ones import torch in seconds
# Of the time: the loader itself, then the same without reading.
REAL_SHARE = 0.75
NONE_SHARE = 0.15  # of it, kept for no workers: what a batch costs and why is measured there
# Of a setting's time, each: the rest goes into starting workers and into batches that are not counted.
STRETCH_SHARE = 0.4
LEAST_S = 0.2  # of a stretch: twenty ticks of the clock that workers' CPU seconds are read from
WORTHWHILE = 1.05  # two more settings that stay below this gain: the curve is flat
STILL_RISING = 1.1  # beyond the cores only while doubling the workers still brings so much
MOSTLY_BLOCKED = 0.5  # and while the workers use no more than this share of the cores
BEYOND = 4  # times as many workers as cores, at most
MEMORY_SHARE = 0.8  # of what is free, for workers: the script itself must go on living


class Indices:
    """What a twin reads: fresh indices from the script's own sampler, then the same ones again."""

    def __init__(self, sampler: Any) -> None:
        self._drawn = iter(sampler)
        self._all: List[Any] = []
        self._setting_batches: List[Any] = []  # of this setting
        self._left = 0.0
        self.exhausted = False  # the sampler has nothing more
        self.repeating = False  # what is given now was given before
        self.reset()

    def reset(self) -> None:
        """Count the sampler's time anew."""
        self._draw_s = self._draw_cpu_s = 0.0

    def draw_costs(self) -> Dict[str, Any]:
        """Seconds of the sampler since the last reset."""
        return {"draw_s": self._draw_s, "draw_cpu_s": self._draw_cpu_s}

    def begin(self, limit: float) -> None:
        """A new setting, with at most `limit` fresh batches."""
        self._setting_batches = []
        self._left = limit
        self.repeating = self.exhausted

    def again(self) -> None:
        """From now on what this setting has read already."""
        self.repeating = True

    def __iter__(self) -> Iterator[Any]:
        turn = 0
        while True:
            batch = END if self.repeating else self._fresh()
            if batch is END:
                self.repeating = True
                drawn_before = self._setting_batches or self._all
                if not drawn_before:
                    return
                batch = drawn_before[turn % len(drawn_before)]
                turn += 1
            yield batch

    def _fresh(self) -> Any:
        if self._left < 1:
            return END
        self._left -= 1
        begin_s, cpu_s = batch_costs.clock(), batch_costs.cpu_clock()
        batch = next(self._drawn, END)
        self._draw_s += batch_costs.clock() - begin_s
        self._draw_cpu_s += batch_costs.cpu_clock() - cpu_s
        if batch is END:
            self.exhausted = True
            return END
        batch = list(batch) if isinstance(batch, list) else batch  # some samplers refill one list
        self._setting_batches.append(batch)
        self._all.append(batch)
        return batch


class Feed:
    """The batches of one twin, epoch after epoch."""

    def __init__(self, begin: Begin, twin: Any, costs: Optional[batch_costs.Costs] = None) -> None:
        self._begin = begin
        self._twin = twin
        self._costs = costs
        self.round = max(1, twin.num_workers)  # batches that come from one worker each
        self.ahead = twin.num_workers * (twin.prefetch_factor or 0)  # batches that are always on their way
        self.restart()

    @property
    def pids(self) -> List[int]:
        """The process ids of the workers."""
        return [int(worker.pid) for worker in getattr(self._iterator, "_workers", ())]

    def restart(self) -> None:
        """Begin an epoch."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "more workers than cores": that is what is being tried
            self._iterator = self._begin(self._twin)
        if self._costs is not None:
            self._costs.watch(self._iterator._dataset_fetcher)

    def take(self) -> Any:
        """The next batch; raises Dry where an epoch has none."""
        batch = next(self._iterator, END)
        if batch is END:
            self.restart()
            batch = next(self._iterator, END)
            if batch is END:
                raise Dry
        return batch

    def skip(self, batches: int) -> None:
        """Let batches pass that are not counted."""
        for _ in range(batches):
            self.take()

    def end(self) -> None:
        """End the workers."""
        shut_down = getattr(self._iterator, "_shutdown_workers", None)
        if shut_down is not None:
            shut_down()


class Loading:
    """Measures one loader, with one number of workers after the other."""

    def __init__(
        self, loader: Any, torch: Any, options: Dict[str, Any], tell: Tell, mark: Callable[[str], None]
    ):
        self._loader = loader
        self._torch = torch
        self._tell = tell
        self._mark = mark
        self._given: Optional[List[int]] = options.get("workers")
        self._cores = max(1, int(options.get("cores", 1)) // int(options.get("ranks", 1)))
        self._begin_s = time.monotonic()
        self._seconds = float(options["seconds"])
        self._iterable = loader._dataset_kind != MAP
        self._index_name = "batch_sampler" if loader.batch_sampler is not None else "sampler"
        self._indices = None if self._iterable else Indices(getattr(loader, self._index_name))
        self._batch_size = batch_size_of(loader) or 0
        self._costs = batch_costs.Costs()
        self._read_before = False  # an iterable dataset gives its first samples to each setting
        self._once = False  # unless a second epoch has none
        self._started: Set[int] = set()
        self._rates: Dict[int, float] = {}
        self._worker_bytes = self._batch_bytes = 0.0
        self._used: Dict[int, float] = {}  # cores that the workers of a setting kept busy

    def run(self) -> None:
        """Measure until every setting is done or the time is over."""
        waiting = self._settings()
        limit = max(1.0, self._fresh_batches() / len(waiting))
        while waiting:
            workers = waiting.pop(0)
            reason = self._reason_to_stop(workers)
            if reason is not None:
                self._tell(LoadingStopEvent(workers=workers, because=reason))
                waiting = [0] if 0 in waiting else []
                continue
            self._mark(f"{workers} workers")
            end_s = self._end_s(REAL_SHARE - NONE_SHARE if workers else REAL_SHARE)
            share_s = (end_s - time.monotonic()) / (sum(map(bool, waiting)) + 1)
            self._guarded(workers, self._real, share_s, limit)
            waiting = self._beyond(waiting) + waiting
        self._without_reading()

    def _end_s(self, share: float) -> float:
        return self._begin_s + share * self._seconds

    def _settings(self) -> List[int]:
        """The numbers of workers: the script's own first, then ever more, then none.

        Without workers this process itself reads: what the dataset opens or uses up by that, workers that are
        forked later would share.
        """
        script_workers = int(self._loader.num_workers)
        counts = {2**power for power in range(20) if 2**power <= self._cores} | {self._cores}
        if self._given is not None:
            counts = set(self._given)
        ordered = (
            [script_workers, *sorted(counts - {0, script_workers})]
            if script_workers
            else sorted(counts - {0})
        )
        return [*ordered, 0]

    def _beyond(self, waiting: List[int]) -> List[int]:
        """One more setting past the cores, where batches wait for something that is not a core."""
        if self._given is not None or self._once or waiting != [0] or not self._rates:
            return []
        most = max(self._rates)
        before = max((rate for workers, rate in self._rates.items() if workers < most), default=0.0)
        if self._rates[most] < STILL_RISING * before or self._used[most] > MOSTLY_BLOCKED * self._cores:
            return []
        return [2 * most] if self._cores <= most <= BEYOND * self._cores // 2 else []

    def _reason_to_stop(self, workers: int) -> Optional[str]:
        """Why no more settings are to be measured, or None."""
        optional = bool(self._rates) and workers not in (0, self._loader.num_workers)
        if optional and time.monotonic() >= self._end_s(REAL_SHARE - NONE_SHARE):
            return "time"
        if workers * self._worker_bytes > MEMORY_SHARE * batch_costs.free_memory_bytes():
            return "memory"
        if workers * self._prefetch() * self._batch_bytes > batch_costs.free_shared_bytes():
            return "shared memory"
        smaller = [self._rates[count] for count in sorted(self._rates) if count < workers]
        if self._given is None and len(smaller) > 2 and max(smaller[-2:]) < WORTHWHILE * max(smaller[:-2]):
            return "flat"
        return None

    def _prefetch(self) -> int:
        return int(self._loader.prefetch_factor or DEFAULT_PREFETCH)

    def _fresh_batches(self) -> float:
        """Batches in an epoch; without end where nobody knows."""
        with Caught():  # a sampler need not have a length
            return float(len(getattr(self._loader, self._index_name)))
        return math.inf

    def _guarded(self, workers: int, measure: Callable[..., None], *args: Any) -> None:
        """Measure a setting; what the script's own code raises ends this setting and is told."""
        with Caught() as trouble:
            measure(workers, *args)
        if isinstance(trouble.error, Dry):
            self._once = workers in self._started
            self._tell(LoadingFailedEvent(workers=workers, dry=True, first=not self._once))
        elif trouble.error is not None:
            self._tell(LoadingFailedEvent(workers=workers, **batch_costs.described(trouble.error)))

    def _twin(self, workers: int, **changed: Any) -> Any:
        """A loader like the script's with so many workers; `changed` replaces further attributes."""
        twin = copy.copy(self._loader)
        prefetch = self._prefetch() if workers else None
        patience_s = self._loader.timeout or max(PATIENCE_S, self._seconds)
        fields = {"num_workers": workers, "prefetch_factor": prefetch, "persistent_workers": workers > 0}
        vars(twin).update(fields, timeout=patience_s if workers else 0, _iterator=None, **changed)
        return twin

    def _feed(self, twin: Any, costs: Optional[batch_costs.Costs] = None) -> Feed:
        return Feed(self._torch.utils.data.DataLoader.__iter__, twin, costs)

    # ------------------------------------------------------------ the loader itself

    def _real(self, workers: int, share_s: float, limit: float) -> None:
        begin_s = time.monotonic()
        changed = {}
        if self._indices is not None:
            self._indices.begin(limit)
            changed = {self._index_name: self._indices}
        feed = self._feed(self._twin(workers, **changed), None if workers else self._costs)
        try:
            first = feed.take()
            took_s = time.monotonic() - begin_s
            self._started.add(workers)
            self._tell(LoadingStartEvent(workers=workers, first_batch_s=took_s))
            self._first_round(feed, first)
            self._stretches(workers, feed, max(LEAST_S, STRETCH_SHARE * (share_s - took_s)))
        finally:
            feed.end()

    def _first_round(self, feed: Feed, first: Any) -> None:
        """Let every worker give its first batch; workers that give the same ones do not share the data."""
        if not self._iterable or feed.round == 1:
            feed.skip(feed.round - 1)
            return
        second = feed.take()
        feed.skip(feed.round - 2)
        alike = [batch_costs.same(self._torch, first, other) for other in (second, feed.take())]
        if alike == [
            True,
            False,
        ]:  # the second worker's first batch is the first one's, whose next one differs
            self._tell(LoadingRepeatsEvent(workers=feed.round))

    def _stretches(self, workers: int, feed: Feed, seconds: float) -> None:
        indices = self._indices
        if indices is not None and not indices.exhausted:
            self._stretch(workers, "cold", feed, seconds, lambda: indices.repeating)
        elif indices is None and not self._read_before:
            self._stretch(workers, "cold", feed, seconds)
            feed.restart()
            feed.take()
            self._read_before = True
        if indices is not None:
            indices.again()
        feed.skip(feed.ahead)
        warm = self._stretch(workers, "warm", feed, seconds)
        if warm is not None:
            self._rates[workers] = warm.batches / warm.seconds
            self._used[workers] = warm.workers_cpu_s / warm.seconds
        if workers:
            each = [size for size in map(batch_costs.private_bytes, feed.pids) if size is not None]
            self._worker_bytes = sum(each) / len(each) if each else 0.0
            self._tell(LoadingMemoryEvent(workers=workers, worker_bytes=self._worker_bytes or None))

    def _stretch(
        self, workers: int, kind: str, feed: Feed, seconds: float, over: Callable[[], bool] = lambda: False
    ) -> Optional[Stretch]:
        self._costs.reset()
        if self._indices is not None:
            self._indices.reset()
        stretch = batch_costs.stretch(feed.take, feed.round, feed.pids, seconds, over, self._batch_size)
        if stretch is None:
            return None
        self._batch_bytes = max(self._batch_bytes, stretch.bytes)
        costs: Dict[str, Any] = {}
        if not workers and kind != "synthetic":
            drawing = {} if self._indices is None else self._indices.draw_costs()
            costs = {**self._costs.collate_costs(), **drawing}
        self._tell(LoadingStretchEvent(workers=workers, kind=kind, **vars(stretch), **costs))
        return stretch

    # ------------------------------------------------------------ one batch's samples, kept in memory

    def _without_reading(self) -> None:
        """The same settings with samples that are there already: what collating and handing over allow."""
        if self._costs.held is None:
            return
        by_batch = self._loader.batch_sampler is not None
        samples = self._costs.held if by_batch else [self._costs.held]
        indices: Iterable[Any] = itertools.repeat(list(range(len(samples))) if by_batch else 0)
        changed = {
            "dataset": batch_costs.Held(samples),
            "_dataset_kind": MAP,
            self._index_name: indices,
            "worker_init_fn": None,
        }
        waiting = sorted(self._rates)
        while waiting and time.monotonic() < self._end_s(1.0):
            workers = waiting.pop(0)
            self._mark(f"{workers} workers, without reading")
            share_s = (self._end_s(1.0) - time.monotonic()) / (len(waiting) + 1)
            with Caught():  # the script never collates samples twice: what fails here is no error of its own
                self._synthetic(workers, changed, share_s)

    def _synthetic(self, workers: int, changed: Dict[str, Any], share_s: float) -> None:
        begin_s = time.monotonic()
        feed = self._feed(self._twin(workers, **changed))
        try:
            feed.skip(feed.round + feed.ahead)
            rest_s = share_s - (time.monotonic() - begin_s)
            self._stretch(workers, "synthetic", feed, max(LEAST_S, 2 * STRETCH_SHARE * rest_s))
        finally:
            feed.end()

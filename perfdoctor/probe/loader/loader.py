"""DataLoaders: how long the training thread waits for batches, and what a batch costs its maker.

Waits and steps are two streams on one clock and are never paired. In workers the fetcher is watched,
not the loop around it; the fetcher of a loader without workers lives in the training process and
is watched just the same.
"""

from __future__ import annotations

import functools
import os
import sys
import time
import weakref
from typing import Any, Callable, Dict, List, Optional, Tuple

from ...wire.batch_rows import BATCHES, TRAINING_PROCESS
from ...wire.events.loaders import EpochEndEvent, EpochEvent, LoaderEvent, WorkerEvent, WorkersEndEvent
from ...wire.files import AppendedRows, MappedRows
from ...wire.step_rows import BATCH, DATA_WAIT, OPEN, VALIDATION
from .. import patch
from ..recorder import Recorder, clock
from ..session import TAG_VARIABLE, Session
from ..steps.steps import StepTracker
from ..user_frames import user_line
from .batch_content import bytes_of, items_of, samples_of

Args = Tuple[Any, ...]
Kwargs = Dict[str, Any]

thread_clock = time.thread_time_ns

RAW_ROWS = 50_000  # per process; past it, each further ROWS_PER_MERGE rows cover twice as many batches
ROWS_PER_MERGE = 5_000
CHEAP_NS = 2_000_000  # batches that cost less are looked at once in CHEAP_STRIDE, after the first EACH_ROWS
CHEAP_STRIDE = 8
EACH_ROWS = 64


class _Epoch:
    """One iterator of one loader."""

    __slots__ = ("batches", "begin", "first_wait_ns", "index", "last_ns", "loader", "startup_ns", "wait_ns")

    def __init__(self, loader: int, index: int, begin: int, startup_ns: int) -> None:
        self.loader = loader
        self.index = index
        self.begin = begin
        self.startup_ns = startup_ns
        self.last_ns = begin  # when its last batch was there
        self.first_wait_ns: Optional[int] = None
        self.batches = 0
        self.wait_ns = 0


class Loaders:
    """The hooks of the process that iterates DataLoaders."""

    def __init__(self, session: Session, steps: StepTracker, torch: Any) -> None:
        self.session = session
        self.steps = steps
        self.torch = torch
        self.numbers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self.count = 0
        self.epochs: Dict[int, _Epoch] = {}  # by id of the iterator
        self.started: Dict[int, int] = {}  # iterators started, by loader
        self.starting = 0  # the loader whose iterator is being made
        self.waiting = False  # for a batch, or for the end of an epoch
        self.delivered = False  # a batch is being worked on, where batches are the steps
        self.may_open = True
        self.made = Making(session, torch.Tensor)

    # ------------------------------------------------------------ construction

    def before_init(self, args: Args, kwargs: Kwargs) -> Any:
        """Stay out of subclasses' nested construction and of workers."""
        return None if self.session.in_worker() else args[0]

    def after_init(self, loader: Any, args: Args, result: Any) -> None:
        """Write down what was built, and where."""
        if loader in self.numbers or not hasattr(loader, "dataset"):
            return
        self.count += 1
        self.numbers[loader] = self.count
        dataset = loader.dataset
        context = getattr(loader, "multiprocessing_context", None)
        self.session.write(
            LoaderEvent(
                id=self.count,
                num_workers=loader.num_workers,
                batch_size=_batch_size(loader),
                prefetch_factor=loader.prefetch_factor,
                persistent_workers=loader.persistent_workers,
                pin_memory=loader.pin_memory,
                start_method=None if context is None else context.get_start_method(),
                dataset=type(dataset).__module__ + "." + type(dataset).__qualname__,
                iterable=isinstance(dataset, self.torch.utils.data.IterableDataset),
                sampler=type(loader.sampler).__name__,
                own_batch_sampler=loader.batch_size is None and loader.batch_sampler is not None,
                at=user_line(),
            )
        )

    # ------------------------------------------------------------ iteration

    def before_iter(self, args: Args, kwargs: Kwargs) -> Optional[Tuple[Recorder, int]]:
        """Starting an iterator, its workers included, is waiting for data."""
        recorder = self.session.recording()
        if recorder is None:
            return None
        loader = args[0]
        self.starting = self.numbers.get(loader, 0)
        if loader.num_workers:
            AppendedRows.prepare(self.session.rows_path("workers"), BATCHES, 0)
        if self.may_open:  # loaders started in a row open a step together
            self.may_open = False
            recorder.touch()
            recorder.mark(OPEN)
        self._enter(recorder)
        return recorder, recorder.since

    def _enter(self, recorder: Recorder) -> None:
        recorder.enter(DATA_WAIT)
        recorder.decide(recorder.base, recorder.base, VALIDATION)

    def after_iter(self, token: Tuple[Recorder, int], args: Args, result: Any) -> None:
        """Remember the iterator, so that its first batch can be told from later ones."""
        recorder, begin = token
        recorder.leave()
        if result is None:
            return
        number = self.starting
        self._leave(number, id(result))
        index = self.started[number] = self.started.get(number, 0) + 1
        self.epochs[id(result)] = _Epoch(number, index, begin, recorder.since - begin)

    def _leave(self, number: int, iterator: int) -> None:
        """End the epochs that a loop left before their last batch: the same loader begins another."""
        ended = [
            key
            for key, epoch in self.epochs.items()
            if key == iterator or (epoch.loader == number and epoch.batches)
        ]
        for key in ended:
            self._end(self.epochs.pop(key), None)

    def before_next(self, args: Args, kwargs: Kwargs) -> Optional[Tuple[Recorder, int, int]]:
        """Wait for a batch; the batch before it is done with."""
        recorder = self.session.recording()
        if recorder is None:
            return None
        self.may_open = True
        if self.delivered:
            self.delivered = False
            recorder.samples += self.steps.samples.take()
            recorder.touch()
            recorder.mark(BATCH)
        depth = len(recorder.stack)
        self._enter(recorder)
        self.waiting = True
        return recorder, recorder.since, depth

    def after_next(self, token: Tuple[Recorder, int, int], args: Args, result: Any) -> None:
        """The batch is here, or the epoch is over."""
        recorder, begin, depth = token
        self.waiting = False
        recorder.unwind(depth)
        epoch = self.epochs.get(id(args[0]))
        if result is None:
            if epoch is not None:
                del self.epochs[id(args[0])]
                self._end(epoch, recorder.since - begin)
            return
        recorder.batches += 1
        self.delivered = recorder.level <= BATCH
        self.steps.samples.give(samples_of(result, self.torch.Tensor))
        if epoch is None:
            return
        for call in self.steps.moments.batch:
            call(epoch.loader, result)
        epoch.batches += 1
        epoch.last_ns = recorder.since
        if epoch.first_wait_ns is None:
            epoch.first_wait_ns = recorder.since - begin
            self._begin(epoch, args[0], epoch.first_wait_ns)
        else:
            epoch.wait_ns += recorder.since - begin

    def before_stop(self, args: Args, kwargs: Kwargs) -> Optional[Tuple[Recorder, int, List[int]]]:
        """Stopping workers is waiting for data as well; where an epoch ends in `next`, it is part of that."""
        recorder = self.session.recording()
        if recorder is None or self.waiting or args[0]._shutdown:
            return None
        recorder.enter(DATA_WAIT)
        return recorder, recorder.since, [worker.pid for worker in args[0]._workers]

    def after_stop(self, token: Tuple[Recorder, int, List[int]], args: Args, result: Any) -> None:
        """Write down how long that took."""
        recorder, begin, workers = token
        recorder.leave()
        self.session.write(WorkersEndEvent(workers=workers, wait_ns=recorder.since - begin))

    def _begin(self, epoch: _Epoch, iterator: Any, first_wait_ns: int) -> None:
        self.session.write(
            EpochEvent(
                loader=epoch.loader,
                index=epoch.index,
                begin_ns=epoch.begin,
                startup_ns=epoch.startup_ns,
                first_wait_ns=first_wait_ns,
                workers=[worker.pid for worker in getattr(iterator, "_workers", ())],
                items=items_of(getattr(iterator, "_dataset", None)),
            )
        )

    def _end(self, epoch: _Epoch, end_wait_ns: Optional[int]) -> None:
        self.session.write(
            EpochEndEvent(
                loader=epoch.loader,
                index=epoch.index,
                batches=epoch.batches,
                wait_ns=epoch.wait_ns,
                end_wait_ns=end_wait_ns,
                last_ns=epoch.last_ns,
            )
        )


class Making:
    """What a batch costs the process that makes it."""

    def __init__(self, session: Session, tensor: type) -> None:
        self.session = session
        self.tensor = tensor
        self.rows: Any = None
        self.pid = 0  # the process that `rows` belongs to
        self.worker = TRAINING_PROCESS
        self.stride = 1  # cheap batches are looked at once in so many
        self.turn = 0
        self.untimed = 0  # batches that the next row stands for as well
        self.measuring = False
        self.collate_ns = self.collate_cpu_ns = 0
        self.collate_begin = (0, 0)
        self.row_totals = [0] * 7  # batches, samples, bytes and the four costs of a row that covers several
        self.written = 0
        self.merge = 1
        self.loaders: Dict[int, int] = {}  # id of a fetcher in this process -> its loader

    def fetcher_made(self, fetcher: Any, loader: int) -> None:
        """Time the collate function of a new fetcher apart from its reading."""
        self.loaders[id(fetcher)] = loader
        fetcher.collate_fn = patch.around(
            fetcher.collate_fn, self.before_collate, self.after_collate, "collate"
        )

    def before_collate(self, args: Args, kwargs: Kwargs) -> Optional[bool]:
        """Start the clocks."""
        if not self.measuring:
            return None
        self.collate_begin = (clock(), thread_clock())
        return True

    def after_collate(self, token: bool, args: Args, result: Any) -> None:
        """Stop the clocks."""
        begin, cpu = self.collate_begin
        self.collate_ns = clock() - begin
        self.collate_cpu_ns = thread_clock() - cpu

    def before_fetch(self, args: Args, kwargs: Kwargs) -> Optional[Tuple[int, int]]:
        """Start the clocks, in a worker or where the training process fetches for itself."""
        self.turn += 1
        if self.turn < self.stride:
            return None
        if self.pid != self.session.pid:
            self._begin_process()
        if self.rows is None:
            return None
        if self.session.slowed:
            self.untimed += 1
            return None
        self.turn = 0
        self.measuring = True
        self.collate_ns = self.collate_cpu_ns = 0
        return clock(), thread_clock()

    def after_fetch(self, token: Tuple[int, int], args: Args, result: Any) -> None:
        """Write the batch's row; it stands for those that were not looked at, too."""
        self.measuring = False
        if result is None:
            return  # the end of an iterable dataset, or an exception
        begin, cpu = token
        end = clock()
        read_cpu = thread_clock() - cpu - self.collate_cpu_ns
        read = end - begin - self.collate_ns
        costs = (read, read_cpu, self.collate_ns, self.collate_cpu_ns, bytes_of(result, self.tensor))
        totals, stride = self.row_totals, self.stride + self.untimed
        self.untimed = 0
        totals[0] += stride
        totals[1] += stride * samples_of(result, self.tensor)
        for place, cost in enumerate(costs, 2):
            totals[place] += stride * cost
        if self.written >= EACH_ROWS:
            self.stride = CHEAP_STRIDE if end - begin < CHEAP_NS else 1
        if totals[0] < self.merge:
            return
        self.rows.add(end, begin, self.pid, self.worker, self.loaders.get(id(args[0]), 0), *totals)
        self.row_totals = [0] * 7
        self.written += 1
        if self.written >= RAW_ROWS and (self.written - RAW_ROWS) % ROWS_PER_MERGE == 0:
            self.merge *= 2

    def _begin_process(self) -> None:
        self.pid = os.getpid()
        self.rows = None
        self.written, self.merge, self.stride, self.untimed, self.row_totals = 0, 1, 1, 0, [0] * 7
        session = self.session
        if session.in_worker():
            from torch.utils.data import get_worker_info

            session.tag = session.tag or os.environ.get(TAG_VARIABLE)
            self.rows = AppendedRows(session.rows_path("workers"), BATCHES)
            self.worker = int(get_worker_info().id)
            session.append(WorkerEvent(worker=self.worker, born_ns=session.born_ns, first_fetch_ns=clock()))
        elif session.recorder is not None and session.tag is not None and not session.recorder.off:
            self.rows = MappedRows(session.rows_path("loader"), BATCHES, 0)
            self.worker = TRAINING_PROCESS


def install(loaders: Loaders) -> None:
    """Put the hooks into torch's data package."""
    data = loaders.torch.utils.data
    iterators = data.dataloader
    fetchers = data._utils.fetch
    made = loaders.made

    def before_fetcher(args: Args, kwargs: Kwargs) -> Any:
        return args[0]

    def after_fetcher(fetcher: Any, args: Args, result: Any) -> None:
        number = loaders.starting
        made.fetcher_made(fetcher, number)
        for call in loaders.steps.moments.fetcher:
            call(number, loaders.started.get(number, 0), fetcher)

    patch.wrap(data.DataLoader, "__init__", loaders.before_init, loaders.after_init, "loader_init")
    patch.wrap(data.DataLoader, "__iter__", loaders.before_iter, loaders.after_iter, "data_wait")
    patch.wrap(
        iterators._BaseDataLoaderIter, "__next__", loaders.before_next, loaders.after_next, "data_wait"
    )
    patch.replace(
        iterators._MultiProcessingDataLoaderIter,
        "_shutdown_workers",
        lambda original: _while_alive(
            patch.around(original, loaders.before_stop, loaders.after_stop, "data_wait"), original
        ),
    )
    patch.wrap(fetchers._BaseDatasetFetcher, "__init__", before_fetcher, after_fetcher, "fetcher_init")
    for fetcher in (fetchers._MapDatasetFetcher, fetchers._IterableDatasetFetcher):
        patch.wrap(fetcher, "fetch", made.before_fetch, made.after_fetch, "fetch")


def _while_alive(watched: Callable[[Any], None], original: Callable[[Any], None]) -> Callable[[Any], None]:
    """`watched`, but `original` once the interpreter ends: `__del__` calls it then, and modules are gone."""
    ends = sys.is_finalizing

    @functools.wraps(original)
    def stop(iterator: Any) -> None:
        return original(iterator) if ends() else watched(iterator)

    return stop


def _batch_size(loader: Any) -> Optional[int]:
    if loader.batch_size is not None:
        return int(loader.batch_size)
    size = getattr(loader.batch_sampler, "batch_size", None)
    return size if isinstance(size, int) else None

"""DataLoaders: what was built, and how long the training thread waits for batches.

Waits and steps are two streams on one clock and are never paired. What a batch costs its maker: `making.py`.
"""

from __future__ import annotations

import multiprocessing
import sys
from _thread import get_ident
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, Callable, Dict, List, Optional, Tuple

from ...wire.batch_rows import BATCHES
from ...wire.events.loaders import EpochEndEvent, EpochEvent, LoaderEvent, WorkersEndEvent
from ...wire.files import AppendedRows
from ...wire.step_rows import BATCH, DATA_WAIT, OPEN, OTHER, VALIDATION
from .. import patch, script_signals
from ..by_identity import ByIdentity
from ..compile_question import compile_question
from ..containers import is_a
from ..looks.op_recording import unseen
from ..on_import import on_import
from ..recorder import FREE, Recorder, clock
from ..session import Session
from ..steps.steps import StepTracker
from ..user_frames import library_between, user_line
from ..wrapping import Args, Kwargs
from .batch_content import batch_size_of, samples_of
from .batch_dimensions import BatchDimensions
from .dataset_contents import DatasetContents
from .dataset_sizes import DatasetSizes
from .epoch import Epoch
from .making import Making

WAIT = "data_wait"
STATEFUL = "torchdata.stateful_dataloader.stateful_dataloader"
NAMED = (FunctionType, MethodType, BuiltinFunctionType, type)  # others are asked for no name: they may count
PLAIN = (list, tuple)  # what batches usually are: of these the first tensor is looked for in place

LOOKS_FIRST, LOOKS_STRIDE = 8, 64  # batches that are looked at: a loader's first, then one in so many


class Loaders:
    """The hooks of the process that iterates DataLoaders."""

    def __init__(self, session: Session, steps: StepTracker, torch: Any) -> None:
        self.session = session
        self.steps = steps
        self.samples = steps.samples
        self.moments = steps.moments
        self.torch = torch
        self.tensor = torch.Tensor
        self.iterators = torch.utils.data.dataloader._BaseDataLoaderIter
        self.numbers: ByIdentity[int] = ByIdentity()
        self.count = 0
        self.epochs: Dict[int, Epoch] = {}  # by id of the iterator
        self.last: Optional[Epoch] = None  # the one of them that was asked last
        self.started: Dict[int, int] = {}  # iterators started, by loader
        self.delivered_by: Dict[int, int] = {}  # batches of ended epochs, by loader
        self.starting = 0  # the loader whose iterator is being made
        self.waiting = False  # for a batch, or for the end of an epoch
        self.delivered = False  # a batch is being worked on, where batches are the steps
        self.may_open = True
        self.function_modes = torch._C._len_torch_function_stack
        self.samples_of = patch.guarded("samples", unseen(samples_of))  # of batches of whatever kind
        self.sizes: DatasetSizes = steps.sizes
        self.contents = DatasetContents(torch.utils.data.Dataset)
        dimensions = BatchDimensions(session, steps.samples, self.sizes, torch.Tensor)
        self.samples_told = patch.guarded("samples", unseen(dimensions.count))  # in whichever dimension
        self.made = Making(session, torch.Tensor, steps.fetches)

    # ------------------------------------------------------------ construction

    def before_init(self, args: Args, kwargs: Kwargs) -> Any:
        """Stay out of subclasses' nested construction and of workers."""
        return None if self.session.in_worker() else args[0]

    def after_init(self, loader: Any, args: Args, result: Any) -> None:
        """Write down what was built, and where."""
        if not hasattr(loader, "_iterator") or loader in self.numbers:
            return  # that is set last: an exception ended the construction
        self.count += 1
        self.numbers[loader] = self.count
        dataset = loader.dataset
        context = getattr(loader, "multiprocessing_context", None)
        self.session.write(
            LoaderEvent(
                id=self.count,
                num_workers=loader.num_workers,
                batch_size=batch_size_of(loader),
                prefetch_factor=loader.prefetch_factor,
                persistent_workers=loader.persistent_workers,
                pin_memory=loader.pin_memory,
                start_method=_start_method(context),
                dataset=type(dataset).__module__ + "." + type(dataset).__qualname__,
                iterable=isinstance(dataset, self.torch.utils.data.IterableDataset),
                sampler=type(loader.sampler).__name__,
                own_batch_sampler=loader.batch_size is None and loader.batch_sampler is not None,
                at=user_line(),
                library=library_between(),
                collate=_collator(loader.collate_fn),
                contents=self.contents.of(dataset),
            )
        )

    # ------------------------------------------------------------ iteration

    def before_iter(self, args: Args, kwargs: Kwargs) -> Optional[Tuple[Recorder, int]]:
        """Starting an iterator, its workers included, is waiting for data."""
        recorder = self.session.recording()
        if recorder is None or self.waiting:  # a loader within one that is being waited for is its work
            return None
        loader = args[0]
        self.starting = self.numbers.get(loader) or 0
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

    def _still_trains(self, recorder: Recorder) -> bool:
        """Whether no other thread turned out to be the one that trains since this one began to wait."""
        return recorder.owner == get_ident()

    def after_iter(self, token: Tuple[Recorder, int], args: Args, result: Any) -> None:
        """Remember the iterator, so that its first batch can be told from later ones."""
        recorder, begin = token
        if not self._still_trains(recorder):
            return
        recorder.leave()
        if not isinstance(result, self.iterators):
            return
        number = self.starting
        self.last = None
        if id(result) in self.epochs:  # its workers live on for the next epoch, or it has a gone one's place
            self._end(self.epochs.pop(id(result)), None)
        index = self.started[number] = self.started.get(number, 0) + 1
        size = batch_size_of(args[0]) or 0
        self.epochs[id(result)] = Epoch(
            result, number, size, index, self.delivered_by.get(number, 0), begin, recorder.since - begin
        )

    def _leave(self) -> None:
        """End the epochs that a loop left before their last batch: their iterators are gone."""
        for key in [key for key, epoch in self.epochs.items() if epoch.iterator() is None]:
            self._end(self.epochs.pop(key), None)

    def wrapped_next(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """`__next__` of iterators, watched: the usual batch in place, any other by `before` and `after`."""
        tracing, compiler = compile_question()
        other = patch.around(original, self.before_next, self.after_next, WAIT)
        come = patch.part_of_step(WAIT, self._come)
        session, turned_off = self.session, patch.turned_off

        def wrapper(iterator: Any) -> Any:
            if tracing() or compiler._is_compiling_flag:
                return original(iterator)
            try:
                recorder = session.recorder
                if (
                    recorder is None
                    or not recorder.free
                    or not FREE[recorder.current]
                    or recorder.owner != get_ident()
                    or self.delivered
                    or turned_off  # of whatever kind: what follows asks
                ):
                    return other(iterator)
                self.may_open = True
                self.waiting = True
                owner = recorder.owner
                begin = clock()  # the time before is in no phase
                if recorder.undecided:
                    recorder.decide(OTHER, OTHER, VALIDATION)
                recorder.since = begin
                recorder.current = DATA_WAIT
                recorder.switches += 1
                batch = None
                try:
                    batch = original(iterator)
                    return batch
                finally:
                    self.waiting = False
                    if recorder.owner == owner:  # else another thread turned out to be the one that trains
                        if recorder.stack:
                            recorder.unwind(0)
                        now = clock()
                        recorder.spent[recorder.current] += now - recorder.since
                        recorder.since = now
                        recorder.current = OTHER
                        come(recorder, (begin, iterator), batch)
            except BaseException as error:
                error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next  # no call: see cut
                raise

        return patch.finished(wrapper, original, WAIT)

    def before_next(self, args: Args, kwargs: Kwargs) -> Optional[Tuple[Recorder, int, int]]:
        """Wait for a batch; the batch before it is done with."""
        recorder = self.session.recording()
        if recorder is None or self.waiting:
            return None
        self.may_open = True
        if self.delivered:
            self.delivered = False
            recorder.samples += self.samples.take()
            recorder.touch()
            recorder.mark(BATCH)
        self.waiting = True
        depth = len(recorder.stack)
        self._enter(recorder)
        return recorder, recorder.since, depth

    def after_next(self, token: Tuple[Recorder, int, int], args: Args, result: Any) -> None:
        """The batch is here, or the epoch is over."""
        recorder, begin, depth = token
        self.waiting = False
        if self._still_trains(recorder):
            recorder.unwind(depth)
            self._come(recorder, (begin, args[0]), result)

    def _come(self, recorder: Recorder, asked: Tuple[int, Any], result: Any) -> None:
        """Count a batch; `asked`: since when, and of which iterator. None: no more, or it failed."""
        begin, iterator = asked
        epoch = self.last
        if epoch is None or epoch.iterator() is not iterator:
            epoch = self.last = self.epochs.get(id(iterator))
        if result is None:
            if epoch is not None:
                self.last = None
                del self.epochs[id(iterator)]
                self._end(epoch, recorder.since - begin)
            return
        recorder.batches += 1
        self.delivered = recorder.level <= BATCH
        first = result[0] if type(result) in PLAIN and result else result
        shape: Any = None
        if type(first) is self.tensor and not self.function_modes():
            try:
                shape = first.shape
            except RuntimeError as error:  # a nested one has none
                script_signals.hand_back(error)
        size = epoch.batch_size if epoch is not None else 0
        count = shape[0] if shape else 0
        if not shape or 0 < size < count:
            count = self.samples_of(result, self.tensor, size) or 0
        samples = self.samples
        samples.loader_delivers = True
        if samples.evaluated:  # by a pass in eval mode alone: the batch before it was no training batch
            samples.evaluate()
            self.steps.modules.before_batch()
        told = count if samples.plain else self.samples_told(count, result, epoch)
        samples.pending += count if told is None else told
        if epoch is None:
            return
        turn = epoch.before + epoch.batches
        epoch.batches += 1
        self.moments.batches += 1
        if turn < LOOKS_FIRST or turn % LOOKS_STRIDE == 0:
            for call in self.moments.batch:
                call(epoch.loader, result)
        epoch.last_ns = recorder.since
        if epoch.first_wait_ns is None:
            epoch.first_wait_ns = recorder.since - begin
            self._leave()  # not before: a variable may have held the old iterator till now
            self._begin(epoch, iterator, epoch.first_wait_ns)
        else:
            epoch.wait_ns += recorder.since - begin

    def before_stop(self, args: Args, kwargs: Kwargs) -> Optional[Tuple[Recorder, int, List[int]]]:
        """Stopping workers is waiting for data as well; where an epoch ends in `next`, it is part of that."""
        recorder = self.session.recording()
        if recorder is None or self.waiting or getattr(args[0], "_shutdown", True):
            return None
        recorder.enter(DATA_WAIT)
        return recorder, recorder.since, [worker.pid for worker in args[0]._workers]

    def after_stop(self, token: Tuple[Recorder, int, List[int]], args: Args, result: Any) -> None:
        """Write down how long that took."""
        recorder, begin, workers = token
        if not self._still_trains(recorder):
            return
        recorder.leave()
        self.session.write(WorkersEndEvent(workers=workers, wait_ns=recorder.since - begin))

    def _begin(self, epoch: Epoch, iterator: Any, first_wait_ns: int) -> None:
        self.session.write(
            EpochEvent(
                loader=epoch.loader,
                index=epoch.index,
                begin_ns=epoch.begin,
                startup_ns=epoch.startup_ns,
                first_wait_ns=first_wait_ns,
                workers=[worker.pid for worker in getattr(iterator, "_workers", ())],
                items=self.sizes.of(getattr(iterator, "_dataset", None)),
            )
        )

    def _end(self, epoch: Epoch, end_wait_ns: Optional[int]) -> None:
        self.delivered_by[epoch.loader] = self.delivered_by.get(epoch.loader, 0) + epoch.batches
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


def install(loaders: Loaders) -> None:
    """Put the hooks into torch's data package."""
    data = loaders.torch.utils.data
    iterators = data.dataloader
    fetchers = data._utils.fetch
    made = loaders.made

    def before_fetcher(args: Args, kwargs: Kwargs) -> Any:
        return args[0]

    def after_fetcher(fetcher: Any, args: Args, result: Any) -> None:
        if not hasattr(fetcher, "drop_last"):
            return  # that is set last: an exception ended the construction
        number = loaders.starting
        made.fetcher_made(fetcher, number)
        for call in loaders.steps.moments.fetcher:
            call(number, loaders.started.get(number, 0), fetcher)

    def watch_kind(kind: Any, with_workers: Any) -> None:
        """A class of loaders, and of its iterators the one that has workers."""
        patch.wrap(kind, "__init__", loaders.before_init, loaders.after_init, "loader_init")
        patch.wrap(kind, "__iter__", loaders.before_iter, loaders.after_iter, WAIT)
        patch.replace(
            with_workers,
            "_shutdown_workers",
            lambda original: _while_alive(
                patch.around(original, loaders.before_stop, loaders.after_stop, WAIT), original
            ),
        )

    def watch_stateful(module: Any) -> None:
        """torchdata's loaders build and iterate themselves; their iterators wait as torch's do."""
        watch_kind(module.StatefulDataLoader, module._StatefulMultiProcessingDataLoaderIter)

    loaders.sizes.install(data)
    watch_kind(data.DataLoader, iterators._MultiProcessingDataLoaderIter)
    on_import(STATEFUL, patch.guarded("loader_init", watch_stateful))
    patch.replace(iterators._BaseDataLoaderIter, "__next__", loaders.wrapped_next)
    patch.wrap(fetchers._BaseDatasetFetcher, "__init__", before_fetcher, after_fetcher, "fetcher_init")
    kinds = [fetchers._MapDatasetFetcher, fetchers._IterableDatasetFetcher]
    loaders.steps.fetches.install(kinds)
    for kind in kinds:
        loaders.steps.fetches.add(kind, made.before_fetch, made.after_fetch, "fetch")
    loaders.steps.fetches.due("fetch", made.next)


def _while_alive(watched: Callable[[Any], None], original: Callable[[Any], None]) -> Callable[[Any], None]:
    """`watched`, but `original` once the interpreter ends: `__del__` calls it then, and modules are gone."""
    ends = sys.is_finalizing

    def stop(iterator: Any) -> None:
        try:
            return original(iterator) if ends() else watched(iterator)
        except BaseException as error:
            patch.cut(error)
            raise

    return patch.finished(stop, original, WAIT)


def _collator(collate: Any) -> str:
    """The name of a collate function, or that of its class where it is an object."""
    named = collate if is_a(collate, NAMED) else type(collate)
    return f"{named.__module__}.{named.__qualname__}"


def _start_method(context: Any) -> Optional[str]:
    """How workers start: as the loader is told, or as processes do here; asking must not settle it."""
    if context is not None:
        return str(context.get_start_method())
    settled = multiprocessing.get_start_method(allow_none=True)
    return settled or multiprocessing.get_all_start_methods()[0]  # the default comes first

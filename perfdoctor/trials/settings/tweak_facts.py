"""What tweaks may ask of the run that was watched: perfdoctor's side of `probe.trial.tweak.WatchedRun`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from functools import cached_property
from typing import Any

from perfdoctor.facts.data.validation_loader import ValidationLoaderFacts
from perfdoctor.facts.gather import Facts
from perfdoctor.facts.predict.step_model import StepModel
from perfdoctor.facts.predict.worker_count import KNEE, good_workers, of_validation, restarts, slowed
from perfdoctor.facts.steps.batch_room import BatchRoom
from perfdoctor.facts.steps.batch_size_cost import BatchSizeFacts
from perfdoctor.model.change import Change, Estimate
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import CpuFacts, LoaderFacts, MemoryFacts, StepFacts, ThreadFacts
from perfdoctor.watch import samplers

Range = tuple[float, float, float]


@dataclass(frozen=True)
class Prediction:
    """What a tweak changes about a step: a Change, and what no Change can hold."""

    change: Change
    threads: int | None = None  # that torch computes with from then on
    restarts: bool = False  # workers that were not there before start again in every epoch
    is_advised: bool = False  # the change is that of the finding that names the tweak


@dataclass(frozen=True)
class TweakFacts:
    """The facts of a run, None where there is none, beside the flags that are tried together."""

    facts: Facts | None
    flags: Mapping[str, Any] = field(default_factory=dict)  # with their values; True: it has none

    def _group(self, kind: type[Any]) -> Any:
        return None if self.facts is None else self.facts.get(kind)

    def _of_loader(self, share_of: Callable[[StepFacts, LoaderFacts], Estimate]) -> Range:
        """A share of a step that workers of the loader take; nothing where that is not known."""
        step: StepFacts | None = self._group(StepFacts)
        share = Estimate() if step is None or self.loader is None else share_of(step, self.loader)
        return share.low, share.likely, share.high

    @property
    def device(self) -> str | None:
        """`cpu`, or the name of what the training ran on."""
        return None if self.facts is None else self.facts.run.device

    @property
    def ranks(self) -> int:
        """Processes that trained."""
        return 1 if self.facts is None else self.facts.run.ranks

    @property
    def usable_cores(self) -> float:
        """Of this machine."""
        return samplers.usable_cores()[0]

    @property
    def modelled(self) -> bool:
        """Whether there is a model of the step."""
        return self._group(StepModel) is not None

    @cached_property
    def loader(self) -> LoaderFacts | None:
        """The training loader, as far as it was measured."""
        loader: LoaderFacts | None = self._group(LoaderFacts)
        return loader

    @property
    def has_loader(self) -> bool:
        """False where the script is known to have none."""
        return self.loader is not None or self.facts is None or self.facts.missing(LoaderFacts) is not None

    @property
    def epoch_waits(self) -> float:
        """The share of a step that waits for epochs to start and end."""
        model: StepModel | None = self._group(StepModel)
        return 0.0 if model is None else model.epoch_s / model.step_s

    @property
    def restarts(self) -> Range:
        """The share of a step that goes if workers live on between epochs."""
        return self._of_loader(restarts)

    @property
    def slowed(self) -> Range:
        """The share of a step that training takes longer where workers start."""
        return self._of_loader(slowed)

    @property
    def fixed_step(self) -> Range | None:
        """The share of a step that no larger batch makes longer."""
        sizes: BatchSizeFacts | None = self._group(BatchSizeFacts)
        return None if sizes is None else sizes.fixed

    @property
    def threads(self) -> int | None:
        """That torch computes with."""
        threads: ThreadFacts | None = self._group(ThreadFacts)
        return None if threads is None else threads.intra_op

    @property
    def memory_times(self) -> float | None:
        """How many times the memory that grows with the batch there is: one so many times as large fits."""
        room: BatchRoom | None = self._group(BatchRoom)
        memory: MemoryFacts | None = self._group(MemoryFacts)
        if self.device != "cpu":
            return None if room is None else room.times
        if memory is None or not memory.peak_rss_bytes or memory.available_bytes is None:
            return None
        return (memory.peak_rss_bytes + memory.available_bytes) / memory.peak_rss_bytes

    def value(self, flag: str) -> Any:
        """The value of a flag that is tried as well; True for one without a value, None where it is not."""
        return self.flags.get(flag)

    def good_workers(self) -> int | None:
        """The fewest workers, from 0 on, that are nearly as good as any number of them."""
        model, cpu = self._group(StepModel), self._group(CpuFacts)
        if model is None or cpu is None or not model.batches:
            return None
        best = good_workers(model, cpu)
        return 0 if model.step_with(0) <= model.step_with(best) * (1 + KNEE) else best

    def other_waits(self, workers: int) -> Range:
        """The share of a step that goes if so many workers prepare the batches of validation."""
        model, slow = self._group(StepModel), self._group(ValidationLoaderFacts)
        step = self._group(StepFacts)
        if model is None or slow is None or step is None or slow.iterable:
            return 0.0, 0.0, 0.0
        share = of_validation(step, slow, model, workers)
        return share.low, share.likely, share.high

    def changes(
        self,
        step: Range = (0.0, 0.0, 0.0),
        batch: Range = (0.0, 0.0, 0.0),
        starts: Range = (0.0, 0.0, 0.0),
        others: Range = (0.0, 0.0, 0.0),
        workers: int | None = None,
        prefetch: int | None = None,
        threads: int | None = None,
        restarts: bool = False,
    ) -> Prediction:
        """A prediction of these quantities: see `WatchedRun.changes`."""
        change = Change(
            Estimate(*step),
            Estimate(*batch),
            Estimate(*starts),
            others=Estimate(*others),
            workers=workers,
            prefetch=prefetch,
        )
        return Prediction(change, threads, restarts)

    def as_advised(self, restarts: bool = False) -> Prediction:
        """A prediction that is left to the findings."""
        return Prediction(Change(), restarts=restarts, is_advised=True)

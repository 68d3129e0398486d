"""Hooks of the training loop."""
import logging
import math
from pathlib import Path
from typing import Dict, List, Type

import torch

log = logging.getLogger("scorecard")
REGISTRY: Dict[str, Type["Callback"]] = {}


class Callback:
    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        REGISTRY[cls.__name__] = cls

    def on_epoch_begin(self, run): ...

    def on_batch_end(self, run): ...

    def on_epoch_end(self, run): ...


class CallbackList:
    def __init__(self, callbacks: List[Callback]):
        self.callbacks = callbacks

    def fire(self, event: str, run):
        for callback in self.callbacks:
            getattr(callback, event)(run)


def fmt(values: Dict[str, float]) -> str:
    return " ".join(f"{k}={v:.4f}" for k, v in values.items())


class LossMonitor(Callback):
    """Stops a run that has gone wrong instead of letting it burn the night."""

    def __init__(self, limit: float = 5.0):
        self.limit = limit

    def on_batch_end(self, run):
        if not math.isfinite(run.loss) or run.loss > self.limit:
            raise RuntimeError(f"loss {run.loss} at step {run.step}")


class BatchTrace(Callback):
    """Trace for the model risk team, switched on with --log-level DEBUG."""

    def on_batch_end(self, run):
        lr = run.optimizer.param_groups[0]["lr"]
        log.debug("step %d lr %.2e loss %.4f | %s", run.step, lr, run.loss, fmt(run.train_measures.compute()))


class EpochReport(Callback):
    def __init__(self):
        self.total, self.n = 0.0, 0

    def on_epoch_begin(self, run):
        self.total, self.n = 0.0, 0

    def on_batch_end(self, run):
        self.total += run.loss
        self.n += 1

    def on_epoch_end(self, run):
        log.info("epoch %d loss %.4f | train %s", run.epoch, self.total / self.n, fmt(run.train_measures.compute()))
        log.info("epoch %d holdout | %s", run.epoch, fmt(run.holdout))


class BestCheckpoint(Callback):
    def __init__(self, key: str = "gini", patience: int = 3):
        self.key, self.patience = key, patience
        self.best, self.bad = -math.inf, 0

    def on_epoch_end(self, run):
        value = run.holdout[self.key]
        if value > self.best:
            self.best, self.bad = value, 0
            path = Path(run.directory) / "best.pt"
            torch.save({"model": run.model.state_dict(), "epoch": run.epoch, "holdout": run.holdout}, path)
        else:
            self.bad += 1
            run.stop = self.bad >= self.patience


def build(names: List[str]) -> CallbackList:
    return CallbackList([REGISTRY[n]() for n in names])

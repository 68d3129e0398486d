import logging
import time
from pathlib import Path

import torch

from .registry import HOOKS

log = logging.getLogger("riverflow")


class Hook:
    def before_fit(self, t): ...
    def before_step(self, t): ...
    def after_backward(self, t): ...
    def after_step(self, t): ...
    def after_epoch(self, t): ...
    def after_fit(self, t): ...


@HOOKS.register("schedule")
class Schedule(Hook):
    def __init__(self, warmup):
        self.warmup = warmup

    def before_fit(self, t):
        def factor(i):
            if i < self.warmup:
                return (i + 1) / self.warmup
            return max(0.05, 1 - (i - self.warmup) / max(1, t.total_steps - self.warmup))
        self.sched = torch.optim.lr_scheduler.LambdaLR(t.optimizer, factor)

    def after_step(self, t):
        self.sched.step()


@HOOKS.register("clip")
class Clip(Hook):
    def __init__(self, max_norm):
        self.max_norm = max_norm

    def after_backward(self, t):
        t.grad_norm = torch.nn.utils.clip_grad_norm_(t.model.parameters(), self.max_norm)


@HOOKS.register("trace")
class Trace(Hook):
    """Follow single samples through training when something looks odd (log_level = "debug")."""

    def after_step(self, t):
        b = t.batch
        log.debug("step %d loss %.5f |g| %.3f", t.step, t.loss.item(), t.grad_norm.item())
        log.debug("step %d basins %s start %s", t.step, b['basin'], b['start'])
        log.debug("step %d pred %s scale %s", t.step, t.pred, t.scale)
        log.debug("step %d obs %s", t.step, b['y'])


@HOOKS.register("progress")
class Progress(Hook):
    def __init__(self, every):
        self.every = every

    def before_fit(self, t):
        self.total, self.seen, self.t0 = 0.0, 0, time.perf_counter()

    def after_step(self, t):
        self.total += t.loss.item()
        self.seen += 1
        if t.step % self.every == 0:
            rate = self.seen / (time.perf_counter() - self.t0)
            log.info("step %d/%d loss %.4f %.1f it/s", t.step, t.total_steps, self.total / self.seen, rate)
            self.total, self.seen, self.t0 = 0.0, 0, time.perf_counter()

    def after_epoch(self, t):
        log.info("epoch %d rmse %.4f nse %.4f", t.epoch, t.metrics["rmse"], t.metrics["nse"])


@HOOKS.register("best_checkpoint")
class BestCheckpoint(Hook):
    def __init__(self, path):
        self.path = Path(path)
        self.best = float("inf")

    def after_epoch(self, t):
        if t.metrics["rmse"] < self.best:
            self.best = t.metrics["rmse"]
            self.path.parent.mkdir(parents=True, exist_ok=True)
            torch.save({"model": t.model.state_dict(), "epoch": t.epoch, "rmse": self.best}, self.path)

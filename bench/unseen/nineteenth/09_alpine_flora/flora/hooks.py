import math
import time

import torch
from sklearn.metrics import roc_auc_score


class GradientClip:
    def __init__(self, limit):
        self.limit = limit

    def after_backward(self, engine):
        torch.nn.utils.clip_grad_norm_(engine.model.parameters(), self.limit)


class CosineWarmup:
    def __init__(self, optimizer, peak, warmup, total):
        self.optimizer, self.peak, self.warmup, self.total = optimizer, peak, warmup, total

    def before_step(self, engine):
        step = engine.step
        if step < self.warmup:
            rate = self.peak * (step + 1) / self.warmup
        else:
            progress = (step - self.warmup) / max(1, self.total - self.warmup)
            rate = 0.5 * self.peak * (1 + math.cos(math.pi * progress))
        for group in self.optimizer.param_groups:
            group["lr"] = rate


class StepPrinter:
    def __init__(self, every):
        self.every = every
        self.total = 0.0
        self.since = time.perf_counter()

    def after_step(self, engine, loss):
        self.total = self.total + loss
        if engine.step % self.every == 0:
            mean = engine.mean_over_ranks(self.total / self.every)
            now = time.perf_counter()
            engine.print(f"step {engine.step:4d}  loss {mean:.4f}  {(now - self.since) / self.every * 1e3:.0f} ms/step")
            self.total, self.since = 0.0, now


class HeldOutEval:
    """Mean per-species AUC on a few held-out batches."""

    def __init__(self, loader, every, batches):
        self.loader, self.every, self.batches = loader, every, batches

    @torch.no_grad()
    def after_step(self, engine, loss):
        if engine.step % self.every:
            return
        engine.bare_model.eval()
        scores, truth = [], []
        for index, batch in enumerate(self.loader):
            if index == self.batches:
                break
            scores.append(engine.bare_model(batch["row"], batch["col"], batch["effort"]))
            truth.append(batch["present"])
        engine.bare_model.train()
        scores, truth = torch.cat(scores), torch.cat(truth)
        seen = (truth.sum(0) > 4) & (truth.sum(0) < len(truth) - 4)
        auc = roc_auc_score(truth[:, seen].numpy(), scores[:, seen].numpy(), average="macro")
        engine.print(f"step {engine.step:4d}  held-out AUC {engine.mean_over_ranks(auc):.4f}")

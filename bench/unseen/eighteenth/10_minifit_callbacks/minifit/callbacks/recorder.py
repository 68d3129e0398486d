import time

import torch

from .core import Callback


class Recorder(Callback):
    """Loss, rate and gradient scale over time, and a line every so many steps."""

    order = 50

    def __init__(self, every):
        self.every = every
        self.losses, self.lrs, self.lines = [], [], []

    def before_fit(self):
        self.began = time.perf_counter()

    def before_epoch(self):
        self.right = self.seen = 0

    def after_backward(self):
        if self.step % self.every:
            return
        norms = {}
        for name, p in self.model.named_parameters():
            if p.grad is not None:
                norms[name] = p.grad.norm().item() / (p.detach().norm().item() + 1e-8)
        self.widest = max(norms, key=norms.get)

    def after_batch(self):
        if not self.training:
            self.right += (self.pred.argmax(1) == self.yb).sum().item()
            self.seen += len(self.yb)
            return
        self.losses.append(self.loss.detach())
        self.lrs.append(self.opt.param_groups[0]["lr"])
        if self.step % self.every == 0:
            recent = torch.stack(self.losses[-self.every :]).mean().item()
            took = time.perf_counter() - self.began
            print(f"step {self.step:4d}  loss {recent:.4f}  lr {self.lrs[-1]:.1e}  largest update {self.widest}  {took:.1f}s", flush=True)

    def after_epoch(self):
        if not self.training:
            self.learn.accuracy = self.right / self.seen
            print(f"   epoch {self.epoch}  accuracy {self.learn.accuracy:.4f}", flush=True)

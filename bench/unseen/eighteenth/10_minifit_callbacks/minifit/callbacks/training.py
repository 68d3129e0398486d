import math

import numpy as np
import torch

from .core import Callback


class Clip(Callback):
    order = 10

    def __init__(self, max_norm):
        self.max_norm = max_norm

    def after_backward(self):
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.max_norm)


class OneCycle(Callback):
    """Cosine up for the first quarter, cosine down to almost nothing."""

    order = 5

    def __init__(self, max_lr, total, up=0.25, start_div=20.0, end_div=1e4):
        self.max_lr, self.total, self.up = max_lr, total, up
        self.low, self.end = max_lr / start_div, max_lr / end_div

    def lr_at(self, pos):
        if pos < self.up:
            a, b, t = self.low, self.max_lr, pos / self.up
        else:
            a, b, t = self.max_lr, self.end, (pos - self.up) / (1 - self.up)
        return b + (a - b) * (1 + math.cos(math.pi * t)) / 2

    def before_batch(self):
        if not self.training:
            return
        lr = self.lr_at(min(1.0, self.step / self.total))
        for group in self.opt.param_groups:
            group["lr"] = lr


class Mixup(Callback):
    order = 20

    def __init__(self, alpha, seed=0):
        self.alpha, self.rng = alpha, np.random.default_rng(seed)

    def before_fit(self):
        plain = self.loss_func

        def mixed(pred, target):
            if not self.training:
                return plain(pred, target)
            return self.lam * plain(pred, target) + (1 - self.lam) * plain(pred, self.other)

        self.learn.loss_func = mixed

    def before_batch(self):
        if not self.training:
            return
        self.lam = float(self.rng.beta(self.alpha, self.alpha))
        perm = torch.randperm(len(self.xb))
        self.other = self.yb[perm]
        self.learn.xb = torch.lerp(self.xb[perm], self.xb, self.lam)

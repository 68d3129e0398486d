import copy

import torch

from .core import Callback


class EMA(Callback):
    """Average of the weights after every step; put back at the end of the fit."""

    order = 30

    def __init__(self, decay):
        self.decay = decay

    @torch.no_grad()
    def before_fit(self):
        self.live = [p.detach() for p in self.model.parameters()]
        self.shadow = [p.clone() for p in self.live]

    @torch.no_grad()
    def after_step(self):
        torch._foreach_lerp_(self.shadow, self.live, 1 - self.decay)

    @torch.no_grad()
    def after_fit(self):
        for p, s in zip(self.live, self.shadow):
            p.copy_(s)


class BestKeeper(Callback):
    """A deep copy of the weights whenever validation improves."""

    order = 60

    def __init__(self):
        self.best, self.state = -1.0, None

    def after_epoch(self):
        if self.training or self.learn.accuracy <= self.best:
            return
        self.best = self.learn.accuracy
        self.state = copy.deepcopy(self.model.state_dict())

import random

import numpy as np
import torch


def seed_all(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


class Averager:
    def __init__(self):
        self.total, self.n = 0.0, 0

    def add(self, value, n):
        self.total += value * n
        self.n += n

    @property
    def mean(self):
        return self.total / max(1, self.n)


@torch.no_grad()
def mae_rmse(net, loader):
    net.eval()
    err = torch.cat([net(x).sum((1, 2, 3)) - c for x, _, c in loader])
    return err.abs().mean().item(), err.square().mean().sqrt().item()

import math

import torch
from torch import nn
import torch.nn.functional as F


class LowRankLinear(nn.Module):
    """Frozen linear layer with a trainable low-rank update."""

    def __init__(self, base, rank, alpha):
        super().__init__()
        self.weight = nn.Parameter(base.weight.detach().clone(), requires_grad=False)
        self.bias = nn.Parameter(base.bias.detach().clone(), requires_grad=False)
        self.down = nn.Parameter(torch.empty(rank, base.in_features))
        self.up = nn.Parameter(torch.zeros(base.out_features, rank))
        nn.init.kaiming_uniform_(self.down, a=math.sqrt(5))
        self.scale = alpha / rank

    def delta(self):
        return self.scale * (self.up @ self.down)

    def forward(self, x):
        low = F.linear(F.linear(x, self.down), self.up)
        return torch.add(F.linear(x, self.weight, self.bias), low, alpha=self.scale)


def inject(model, cfg):
    for p in model.encoder.parameters():
        p.requires_grad_(False)
    for layer in model.encoder.layers:
        for name in cfg.targets:
            setattr(layer, name, LowRankLinear(getattr(layer, name), cfg.rank, cfg.alpha))
    return [p for p in model.parameters() if p.requires_grad]

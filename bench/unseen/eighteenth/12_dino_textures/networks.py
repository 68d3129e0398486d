import copy
import math
from itertools import groupby

import torch
import torch.nn.functional as F
from torch import nn


def conv(i, o, stride):
    return nn.Sequential(nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.GroupNorm(8, o), nn.GELU())


class Encoder(nn.Module):
    def __init__(self, width, embed, prototypes):
        super().__init__()
        self.body = nn.Sequential(
            conv(3, width, 2), conv(width, width * 2, 2), conv(width * 2, width * 2, 1),
            conv(width * 2, width * 4, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.project = nn.Sequential(nn.Linear(width * 4, 256), nn.GELU(), nn.Linear(256, embed))
        self.prototypes = nn.utils.parametrizations.weight_norm(nn.Linear(embed, prototypes, bias=False))

    def forward(self, views):
        """Views of one size go through the body together."""
        feats = [self.body(torch.cat(list(same)))
                 for _, same in groupby(views, key=lambda v: v.shape[-1])]
        z = F.normalize(self.project(torch.cat(feats)), dim=-1)
        return z, self.prototypes(z)


class Teacher:
    def __init__(self, student, start, end, steps):
        self.net = copy.deepcopy(student).requires_grad_(False)
        self.start, self.end, self.steps, self.t = start, end, steps, 0

    @torch.no_grad()
    def __call__(self, views):
        return self.net(views)

    @torch.no_grad()
    def follow(self, student):
        m = self.end - (self.end - self.start) * 0.5 * (1 + math.cos(math.pi * self.t / self.steps))
        self.t += 1
        torch._foreach_lerp_(list(self.net.parameters()), list(student.parameters()), 1 - m)

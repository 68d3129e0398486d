import copy
import math

import torch
from torch.nn import functional as F


class MomentumTeacher:
    """Exponential moving average of the student's encoder that yields the targets."""

    def __init__(self, encoder, start, end, average_top, total_steps):
        self.encoder = copy.deepcopy(encoder).eval().requires_grad_(False)
        self.start = start
        self.end = end
        self.average_top = average_top
        self.total_steps = total_steps

    def momentum(self, step):
        progress = min(step / self.total_steps, 1.0)
        return self.end - (self.end - self.start) * (math.cos(math.pi * progress) + 1) / 2

    @torch.no_grad()
    def targets(self, patches, mask):
        _, layers = self.encoder(patches, keep_last=self.average_top)
        normed = [F.layer_norm(layer[mask], layer.shape[-1:]) for layer in layers]
        return F.layer_norm(torch.stack(normed).mean(0), normed[0].shape[-1:])

    @torch.no_grad()
    def update(self, encoder, step):
        m = self.momentum(step)
        for ours, theirs in zip(self.encoder.parameters(), encoder.parameters()):
            ours.mul_(m).add_(theirs, alpha=1.0 - m)

from __future__ import annotations

import torch
from torch.nn import functional as F


def reconstruction(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.binary_cross_entropy_with_logits(logits, target, reduction="sum") / target.shape[0]


def kl_standard_normal(mean: torch.Tensor, logvar: torch.Tensor) -> torch.Tensor:
    return 0.5 * (mean.square() + logvar.exp() - 1.0 - logvar).sum() / mean.shape[0]


class WarmupELBO:
    def __init__(self, warmup_steps: int):
        self.warmup_steps = max(1, warmup_steps)

    def beta(self, step: int) -> float:
        return min(1.0, step / self.warmup_steps)

    def __call__(self, logits, mean, logvar, target, step: int):
        rec = reconstruction(logits, target)
        kl = kl_standard_normal(mean, logvar)
        return rec + self.beta(step) * kl, rec, kl

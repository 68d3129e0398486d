from __future__ import annotations

import math

import torch

from .registry import OPTIMIZERS, SCHEDULES


@OPTIMIZERS.register("adamw")
def adamw(params, lr: float, weight_decay: float):
    return torch.optim.AdamW(params, lr=lr, weight_decay=weight_decay, fused=True)


@SCHEDULES.register("cosine")
def cosine(optimizer, total: int, warmup: int):
    def factor(step: int) -> float:
        if step < warmup:
            return (step + 1) / warmup
        return 0.5 * (1.0 + math.cos(math.pi * (step - warmup) / max(1, total - warmup)))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)

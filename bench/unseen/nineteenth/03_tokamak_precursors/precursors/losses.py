from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from .registry import LOSSES


@LOSSES.register("info_nce")
class InfoNCE(nn.Module):
    def __init__(self, weight: float, temperature: float):
        super().__init__()
        self.weight, self.temperature = weight, temperature

    def forward(self, out, batch):
        positive = (out["query"] * out["future"]).sum(dim=-1, keepdim=True)
        negative = torch.bmm(out["query"], out["distractors"].transpose(1, 2))
        logits = torch.cat([positive, negative], dim=-1) / self.temperature
        target = logits.new_zeros(logits.shape[:2], dtype=torch.long)
        return F.cross_entropy(logits.flatten(0, 1), target.flatten())


@LOSSES.register("precursor_bce")
class PrecursorBCE(nn.Module):
    def __init__(self, weight: float):
        super().__init__()
        self.weight = weight

    def forward(self, out, batch):
        return F.binary_cross_entropy_with_logits(out["alarm"], batch["precursor"])


class WeightedSum(nn.Module):
    def __init__(self, specs: list[dict]):
        super().__init__()
        self.names = [spec["name"] for spec in specs]
        self.terms = nn.ModuleList([LOSSES.build(spec) for spec in specs])

    def forward(self, out, batch):
        parts = {name: term(out, batch) for name, term in zip(self.names, self.terms)}
        total = sum(term.weight * parts[name] for name, term in zip(self.names, self.terms))
        return total, parts

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from ..registry import MODELS
from .recurrent import OrthogonalRNN


class CausalBlock(nn.Module):
    def __init__(self, width: int, kernel: int):
        super().__init__()
        self.pad = kernel - 1
        self.conv = nn.Conv1d(width, width, kernel)
        self.norm = nn.GroupNorm(8, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + F.gelu(self.norm(self.conv(F.pad(x, (self.pad, 0)))))


@MODELS.register("orthogonal_forecaster")
class OrthogonalForecaster(nn.Module):
    def __init__(self, n_channels: int, n_horizons: int, width: int, state: int, embed: int, conv_layers: int, kernel: int):
        super().__init__()
        self.stem = nn.Linear(n_channels, width)
        self.blocks = nn.Sequential(*[CausalBlock(width, kernel) for _ in range(conv_layers)])
        self.memory = OrthogonalRNN(width, state)
        self.queries = nn.Linear(state, n_horizons * embed)
        self.keys = nn.Sequential(nn.Linear(n_channels, width), nn.GELU(), nn.Linear(width, embed))
        self.alarm = nn.Sequential(nn.Linear(state, 64), nn.GELU(), nn.Linear(64, 1))
        self.n_horizons = n_horizons

    def forward(self, batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        frames = self.blocks(self.stem(batch["context"]).transpose(1, 2)).transpose(1, 2)
        states = self.memory(frames)
        summary = states[:, -1]
        return {
            "query": F.normalize(self.queries(summary).unflatten(1, (self.n_horizons, -1)), dim=-1),
            "future": F.normalize(self.keys(batch["future"]), dim=-1),
            "distractors": F.normalize(self.keys(batch["distractors"]), dim=-1),
            "alarm": self.alarm(states.mean(dim=1) + summary).squeeze(-1),
        }

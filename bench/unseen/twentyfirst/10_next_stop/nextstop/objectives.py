"""Loss and metrics that know where the zones lie."""
import torch
import torch.nn.functional as F
from torch import nn

from .config import CityConfig, OptimConfig


def zone_xy(city: CityConfig) -> torch.Tensor:
    zone = torch.arange(city.zones)
    xy = torch.stack([zone // city.grid, zone % city.grid], dim=1).float()
    return torch.cat([torch.full((1, 2), -1e4), xy])     # PAD lies far away


class SpatialCrossEntropy(nn.Module):
    """Cross entropy whose smoothing mass goes to the eight neighbours of the true zone."""

    def __init__(self, city: CityConfig, cfg: OptimConfig):
        super().__init__()
        xy = zone_xy(city)
        near = torch.cdist(xy[1:], xy[1:]) <= cfg.smooth_radius
        index = near.float().topk(9, dim=1).indices + 1
        index = torch.cat([torch.zeros(1, 9, dtype=torch.long), index])
        self.register_buffer("neighbours", index)
        self.mass = cfg.smooth_mass

    def forward(self, scores: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        logp = F.log_softmax(scores, dim=-1)
        hit = logp.gather(1, target[:, None]).squeeze(1)
        around = logp.gather(1, self.neighbours[target]).mean(dim=1)
        return -((1 - self.mass) * hit + self.mass * around).mean()


class StopMetrics:
    """Top-k hit rate and mean error in zones, accumulated on tensors."""

    def __init__(self, city: CityConfig, ks=(1, 5, 20)):
        self.ks, self.xy = ks, zone_xy(city)
        self.reset()

    def reset(self):
        self.hits = torch.zeros(len(self.ks))
        self.distance, self.n = torch.zeros(()), 0

    def update(self, scores, target):
        top = scores.topk(max(self.ks), dim=1).indices
        found = top == target[:, None]
        self.hits += torch.stack([found[:, :k].any(1).sum() for k in self.ks])
        self.distance += (self.xy[top[:, 0]] - self.xy[target]).norm(dim=1).sum()
        self.n += len(target)

    def compute(self):
        out = {f"top{k}": float(h) / self.n for k, h in zip(self.ks, self.hits)}
        out["zones_off"] = float(self.distance) / self.n
        return out

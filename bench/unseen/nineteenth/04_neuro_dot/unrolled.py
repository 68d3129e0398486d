from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F


class VolumePrior(nn.Module):
    """Learned proximal step on the voxel grid."""

    def __init__(self, channels: int, shape: tuple[int, int, int]):
        super().__init__()
        self.shape = shape
        self.lift = nn.Conv3d(4, channels, 3, padding=1)
        self.norm = nn.GroupNorm(4, channels)
        self.mix = nn.Conv3d(channels, channels, 3, padding=1)
        self.drop = nn.Conv3d(channels, 2, 3, padding=1)

    def forward(self, x: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        h = torch.cat([x, gradient]).transpose(0, 1).unflatten(2, self.shape)
        h = F.silu(self.norm(self.lift(h)))
        h = h + F.silu(self.mix(h))
        return self.drop(h).flatten(2).transpose(0, 1)


class UnrolledReconstruction(nn.Module):
    """Tikhonov start followed by learned gradient iterations, then chromophore unmixing."""

    def __init__(self, jacobian, inverse, extinction, shape, iterations: int, channels: int):
        super().__init__()
        self.register_buffer("jacobian", jacobian, persistent=False)
        self.register_buffer("inverse", inverse, persistent=False)
        self.register_buffer("unmixing", torch.linalg.inv(extinction), persistent=False)
        self.stride = nn.Parameter(torch.full((iterations,), 0.5))
        self.priors = nn.ModuleList([VolumePrior(channels, shape) for _ in range(iterations)])

    def _data_gradient(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        residual = torch.bmm(x, self.jacobian.mT) - y
        return torch.bmm(residual, self.jacobian)

    def forward(self, y: torch.Tensor) -> torch.Tensor:
        y = y.transpose(0, 1).contiguous()
        x = torch.bmm(y, self.inverse.mT)
        for stride, prior in zip(self.stride, self.priors):
            gradient = self._data_gradient(x, y)
            x = x - stride * gradient + prior(x, gradient)
        return torch.einsum("cw,wnv->ncv", self.unmixing, x)

"""Random haemodynamic activations and their simulated optical measurements."""
from __future__ import annotations

import torch
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from optics import extinction, voxel_centres


def draw_activations(n: int, grid: int, layers: int, generator: torch.Generator) -> torch.Tensor:
    """HbO and HbR changes, (n, 2, voxel)."""
    voxels = voxel_centres(grid, layers)
    span = voxels.amax(dim=0)
    volume = torch.zeros(n, 2, len(voxels))
    for _ in range(3):
        centre = (torch.rand(n, 3, generator=generator) * 2 - 1) * 0.7 * span
        centre[:, 2] = span[2] * (0.25 + 0.5 * torch.rand(n, generator=generator))
        width = 3.0 + 4.0 * torch.rand(n, 1, generator=generator)
        height = torch.randn(n, 1, generator=generator)
        blob = height * torch.exp(-0.5 * (torch.cdist(centre, voxels) / width).square())
        volume[:, 0] += blob
        volume[:, 1] -= 0.35 * blob
    return volume


def measure(volume: torch.Tensor, jacobian: torch.Tensor, noise: float, generator: torch.Generator) -> torch.Tensor:
    absorption = torch.einsum("wc,ncv->wvn", extinction(), volume)
    signal = torch.bmm(jacobian, absorption).permute(2, 0, 1).contiguous()
    level = noise * signal.std()
    return signal + level * torch.randn(signal.shape, generator=generator)


def make_set(n: int, jacobian: torch.Tensor, options, seed: int) -> TensorDataset:
    generator = torch.Generator().manual_seed(seed)
    volume = draw_activations(n, options.grid, options.layers, generator)
    return TensorDataset(measure(volume, jacobian, options.noise, generator), volume)


def make_loaders(jacobian: torch.Tensor, options, rank: int, world: int) -> tuple[DataLoader, DataLoader]:
    train = make_set(options.n_train, jacobian, options, options.seed)
    valid = make_set(options.n_valid, jacobian, options, options.seed + 1)
    sampler = DistributedSampler(train, world, rank, shuffle=True, seed=options.seed, drop_last=True)
    return (
        DataLoader(train, options.batch_size, sampler=sampler, drop_last=True),
        DataLoader(valid, options.batch_size, sampler=DistributedSampler(valid, world, rank, shuffle=False)),
    )

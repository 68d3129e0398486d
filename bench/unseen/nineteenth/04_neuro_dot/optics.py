"""Linearized photon transport in a layered slab of tissue (Rytov approximation)."""
from __future__ import annotations

import torch

# (mu_eff 1/mm, [HbO, HbR] extinction in relative units) at 760 nm and 850 nm
WAVELENGTHS = ((0.19, (0.59, 1.55)), (0.16, (1.06, 0.69)))


def voxel_centres(grid: int, layers: int, pitch: float = 2.5) -> torch.Tensor:
    lateral = (torch.arange(grid) - (grid - 1) / 2) * pitch
    depth = (torch.arange(layers) + 1.0) * 1.8
    return torch.cartesian_prod(depth, lateral, lateral)[:, [1, 2, 0]]


def optode_grid(n: int, extent: float, offset: float) -> torch.Tensor:
    rows = max(1, int(n**0.5))
    ys = torch.linspace(-extent, extent, rows)
    xs = torch.linspace(-extent, extent, -(-n // rows))
    points = torch.cartesian_prod(xs, ys)[:n] + offset
    return torch.cat([points, torch.zeros(len(points), 1)], dim=1)


def _green(a: torch.Tensor, b: torch.Tensor, mu_eff: float) -> torch.Tensor:
    distance = torch.cdist(a, b).clamp_min(1.0)
    return torch.exp(-mu_eff * distance) / distance


def sensitivity(grid: int, layers: int, optodes: int) -> torch.Tensor:
    """Jacobian of log-intensity with respect to absorption, (wavelength, measurement, voxel)."""
    voxels = voxel_centres(grid, layers)
    sources = optode_grid(optodes, 26.0, 0.0)
    detectors = optode_grid(optodes, 26.0, 2.4)
    rows = []
    for mu_eff, _ in WAVELENGTHS:
        to_voxel = _green(sources, voxels, mu_eff)
        from_voxel = _green(detectors, voxels, mu_eff)
        direct = _green(sources, detectors, mu_eff)
        jacobian = to_voxel[:, None, :] * from_voxel[None, :, :] / direct[:, :, None]
        jacobian = jacobian.flatten(0, 1)
        largest = torch.linalg.eigvalsh(jacobian @ jacobian.mT)[-1].sqrt()
        rows.append(jacobian / largest)
    return torch.stack(rows)


def tikhonov_inverse(jacobian: torch.Tensor, relative: float = 1e-3) -> torch.Tensor:
    """Regularized inverse, (wavelength, voxel, measurement)."""
    gram = jacobian @ jacobian.mT
    strength = relative * gram.diagonal(dim1=-2, dim2=-1).amax(dim=-1)
    gram.diagonal(dim1=-2, dim2=-1).add_(strength[:, None])
    factor = torch.linalg.cholesky(gram)
    return torch.cholesky_solve(jacobian, factor).mT.contiguous()


def extinction() -> torch.Tensor:
    return torch.tensor([row for _, row in WAVELENGTHS])

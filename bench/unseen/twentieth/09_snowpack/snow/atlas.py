"""Static maps of the study area on a 100 m grid."""
import torch
import torch.nn.functional as F


def _noise(size, cells, gen):
    coarse = torch.randn(1, 1, cells, cells, generator=gen)
    return F.interpolate(coarse, size=(size, size), mode="bicubic", align_corners=False)[0, 0]


def _wide_mean(field, window, shrink=8):
    """Mean over a wide window, computed on a coarser grid."""
    coarse = F.avg_pool2d(field[None, None], shrink)
    k = window // shrink | 1
    coarse = F.avg_pool2d(coarse, k, 1, k // 2)
    return F.interpolate(coarse, size=field.shape, mode="bilinear", align_corners=False)[0, 0]


def build_atlas(size, seed):
    gen = torch.Generator().manual_seed(seed + 7)
    elevation = 900 + 450 * _noise(size, 9, gen) + 120 * _noise(size, 64, gen) + 15 * _noise(size, 300, gen)
    gy, gx = torch.gradient(elevation)
    slope = torch.sqrt(gx ** 2 + gy ** 2)
    aspect = torch.atan2(gy, gx)
    curvature = torch.gradient(gx, dim=1)[0] + torch.gradient(gy, dim=0)[0]
    canopy = torch.sigmoid(_noise(size, 80, gen) - (elevation - 900) / 500)
    exposure = elevation - _wide_mean(elevation, 31)
    roughness = F.avg_pool2d(curvature.abs()[None, None], 5, 1, 2)[0, 0]
    water = (_noise(size, 40, gen) > 1.2).float()
    distance = _wide_mean(water, 63)
    layers = torch.stack([elevation, slope, aspect.sin(), aspect.cos(), curvature,
                          canopy, exposure, roughness, water, distance])
    mean = layers.mean(dim=(1, 2), keepdim=True)
    std = layers.std(dim=(1, 2), keepdim=True).clamp_min(1e-3)
    return (layers - mean) / std

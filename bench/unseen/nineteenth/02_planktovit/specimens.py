"""Synthetic imaging-flow-cytometry specimens, one grey silhouette per particle."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

TAXA = (
    "centric_diatom",
    "pennate_diatom",
    "chain_diatom",
    "dinoflagellate",
    "ciliate",
    "copepod_nauplius",
    "radiolarian",
    "detritus",
)


@dataclass
class SpecimenSet:
    images: torch.Tensor  # uint8, (n, 1, size, size)
    taxon: torch.Tensor  # int64, (n,)


def _radius_profile(taxon: int, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    phase = rng.uniform(0, 2 * np.pi, size=(len(theta), 1, 1))
    wobble = rng.normal(0.0, 0.03, size=(len(theta), 1, 1))
    lobes = (0, 2, 4, 3, 1, 5, 12, 7)[taxon]
    amplitude = (0.02, 0.55, 0.4, 0.2, 0.3, 0.25, 0.15, 0.35)[taxon]
    return 1.0 + amplitude * np.cos(lobes * theta + phase) + wobble * np.sin(9 * theta)


def collect(n: int, size: int, seed: int, block: int = 256) -> SpecimenSet:
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.full(len(TAXA), 6.0))
    taxon = rng.choice(len(TAXA), size=n, p=weights)
    axis = np.linspace(-1.0, 1.0, size, dtype=np.float32)
    yy, xx = np.meshgrid(axis, axis, indexing="ij")
    images = np.empty((n, 1, size, size), dtype=np.uint8)
    for label in range(len(TAXA)):
        members = np.flatnonzero(taxon == label)
        for start in range(0, len(members), block):
            rows = members[start : start + block]
            shift = rng.normal(0.0, 0.12, size=(2, len(rows), 1, 1))
            dx, dy = xx - shift[0], yy - shift[1]
            scale = rng.uniform(0.32, 0.5, size=(len(rows), 1, 1))
            edge = _radius_profile(label, np.arctan2(dy, dx), rng) * scale
            radius = np.hypot(dx, dy)
            body = 1.0 / (1.0 + np.exp((radius - edge) * 28.0))
            grain = rng.normal(0.0, 0.1, size=body.shape)
            shading = 0.75 + 0.25 * np.cos(radius / edge * np.pi * (2 + label % 3))
            frame = 0.85 - 0.6 * body * shading + grain
            images[rows, 0] = (np.clip(frame, 0, 1) * 255).astype(np.uint8)
    return SpecimenSet(torch.from_numpy(images), torch.from_numpy(taxon.astype(np.int64)))

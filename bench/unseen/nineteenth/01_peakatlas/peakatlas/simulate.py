"""Simulated fragment counts with chromosome blocks, regulatory programs and donors."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from .settings import AtlasSettings


@dataclass
class RawAtlas:
    blocks: dict[str, sparse.coo_matrix]
    donor: np.ndarray
    program: np.ndarray


def simulate_atlas(cfg: AtlasSettings) -> RawAtlas:
    rng = np.random.default_rng(cfg.seed)
    mixture = rng.dirichlet(np.full(cfg.n_programs, 0.12), size=cfg.n_cells).astype(np.float32)
    donor = rng.integers(0, cfg.n_donors, size=cfg.n_cells)
    depth = rng.lognormal(0.0, 0.45, size=(cfg.n_cells, 1)).astype(np.float32)

    blocks: dict[str, sparse.coo_matrix] = {}
    for number, n_peaks in enumerate(cfg.peaks_per_chromosome, start=1):
        usage = rng.gamma(0.25, 1.0, size=(cfg.n_programs, n_peaks)).astype(np.float32)
        usage /= usage.mean()
        donor_effect = rng.lognormal(0.0, 0.25, size=(cfg.n_donors, n_peaks)).astype(np.float32)
        rate = mixture @ usage
        rate *= donor_effect[donor]
        rate *= depth * cfg.mean_open
        opened = rng.random(rate.shape, dtype=np.float32) < -np.expm1(-rate)
        rows, cols = np.nonzero(opened)
        fragments = rng.geometric(0.8, size=rows.size).astype(np.float32)
        blocks[f"chr{number}"] = sparse.coo_matrix((fragments, (rows, cols)), shape=rate.shape)
    return RawAtlas(blocks=blocks, donor=donor, program=mixture.argmax(axis=1))

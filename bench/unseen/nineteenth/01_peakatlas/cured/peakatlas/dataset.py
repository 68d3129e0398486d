"""Assembly, filtering and indexing of the cell-by-peak matrix."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy import sparse
from torch.utils.data import DataLoader, Dataset

from .settings import FilterSettings
from .simulate import RawAtlas


@dataclass
class PeakMatrix:
    counts: sparse.spmatrix
    peak_names: np.ndarray
    idf: np.ndarray
    donor: np.ndarray
    program: np.ndarray

    @property
    def n_cells(self) -> int:
        return self.counts.shape[0]

    @property
    def n_peaks(self) -> int:
        return self.counts.shape[1]


def assemble(raw: RawAtlas, cfg: FilterSettings) -> PeakMatrix:
    """Join the chromosome blocks, binarize them and keep informative peaks."""
    counts = sparse.hstack(list(raw.blocks.values()), format="csc", dtype=np.float32)
    counts.data[:] = 1.0
    names = np.concatenate(
        [[f"{chrom}:{500 * i}-{500 * (i + 1)}" for i in range(block.shape[1])] for chrom, block in raw.blocks.items()]
    )
    open_cells = np.diff(counts.indptr)
    keep = (open_cells >= cfg.min_cells_per_peak) & (open_cells <= cfg.max_open_fraction * counts.shape[0])
    counts = counts[:, np.flatnonzero(keep)].tocsr()
    idf = np.log1p(counts.shape[0] / open_cells[keep]).astype(np.float32)
    return PeakMatrix(counts, names[keep], idf / idf.mean(), raw.donor, raw.program)


class CellDataset(Dataset):
    """One item per cell: accessibility vector, donor and regulatory program."""

    def __init__(self, matrix: PeakMatrix, cells: np.ndarray):
        self.counts = matrix.counts
        self.cells = np.asarray(cells)
        self.donor = torch.from_numpy(matrix.donor.astype(np.int64))
        self.program = torch.from_numpy(matrix.program.astype(np.int64))

    def __len__(self) -> int:
        return len(self.cells)

    def __getitem__(self, index: int):
        cell = self.cells[index]
        accessible = self.counts[cell].toarray().ravel()
        return torch.from_numpy(accessible), self.donor[cell], self.program[cell]


def split_cells(n_cells: int, holdout: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    order = np.random.default_rng(seed).permutation(n_cells)
    n_hold = int(round(holdout * n_cells))
    return np.sort(order[n_hold:]), np.sort(order[:n_hold])


def make_loaders(matrix: PeakMatrix, cfg: FilterSettings, batch_size: int, seed: int):
    train_cells, held_cells = split_cells(matrix.n_cells, cfg.holdout_fraction, seed)
    train = DataLoader(
        CellDataset(matrix, train_cells),
        batch_size=batch_size,
        shuffle=True,
        drop_last=True,
        generator=torch.Generator().manual_seed(seed),
    )
    held = DataLoader(CellDataset(matrix, held_cells), batch_size=2 * batch_size)
    return train, held

"""Simulated retail loan book."""
from dataclasses import dataclass
from typing import Dict, Iterator, Tuple

import numpy as np
import torch

PRODUCTS = ("card", "overdraft", "personal", "auto", "mortgage", "sme")
CATEGORIES: Dict[str, int] = {
    "product": len(PRODUCTS),
    "region": 16,
    "employment": 7,
    "channel": 5,
    "tenure_band": 9,
}
NUMERIC = 20


@dataclass
class BookConfig:
    accounts: int = 110000
    default_rate: float = 0.07
    seed: int = 23


@dataclass
class Slice:
    numeric: torch.Tensor
    categorical: torch.Tensor
    default: torch.Tensor

    def __len__(self):
        return len(self.default)

    def take(self, rows) -> "Slice":
        return Slice(self.numeric[rows], self.categorical[rows], self.default[rows])


def originate(cfg: BookConfig) -> Slice:
    rng = np.random.default_rng(cfg.seed)
    n = cfg.accounts
    latent = rng.normal(size=(n, 6))
    numeric = latent @ rng.normal(size=(6, NUMERIC)) * 0.6 + rng.normal(size=(n, NUMERIC))
    numeric[:, ::4] = np.sinh(numeric[:, ::4] * 0.7)          # balances and incomes have heavy tails
    cats = np.stack([rng.integers(0, k, size=n) for k in CATEGORIES.values()], axis=1)
    effect = sum(rng.normal(scale=0.35, size=k)[cats[:, j]] for j, k in enumerate(CATEGORIES.values()))
    score = latent[:, 0] + 0.8 * np.abs(latent[:, 1]) + 0.6 * latent[:, 2] * latent[:, 3] + effect
    score += rng.logistic(scale=0.7, size=n)
    default = score > np.quantile(score, 1 - cfg.default_rate)
    return Slice(
        torch.from_numpy(numeric.astype(np.float32)),
        torch.from_numpy(cats.astype(np.int64)),
        torch.from_numpy(default.astype(np.float32)),
    )


class GaussRank:
    """Maps every numeric column to normal scores with quantiles of the training slice."""

    def __init__(self, points: int = 255):
        self.q = torch.linspace(0.002, 0.998, points)

    def fit(self, x: torch.Tensor) -> "GaussRank":
        self.edges = torch.quantile(x[:: max(1, len(x) // 20000)], self.q, dim=0).T.contiguous()
        return self

    def transform(self, x: torch.Tensor) -> torch.Tensor:
        rank = torch.searchsorted(self.edges, x.T.contiguous()).float() + 0.5
        return torch.special.ndtri(rank / (len(self.q) + 1)).T.contiguous()


def split(book: Slice, seed: int, holdout: float = 0.12) -> Tuple[Slice, Slice]:
    order = torch.randperm(len(book), generator=torch.Generator().manual_seed(seed))
    cut = int(len(book) * holdout)
    train, hold = book.take(order[cut:]), book.take(order[:cut])
    rank = GaussRank().fit(train.numeric)
    train.numeric, hold.numeric = rank.transform(train.numeric), rank.transform(hold.numeric)
    return train, hold


class SliceLoader:
    """Mini-batches straight from tensors in memory."""

    def __init__(self, data: Slice, batch_size: int, generator: torch.Generator = None):
        self.data, self.batch_size, self.generator = data, batch_size, generator

    def __len__(self):
        n = len(self.data)
        return n // self.batch_size if self.generator is not None else -(-n // self.batch_size)

    def __iter__(self) -> Iterator[Slice]:
        n = len(self.data)
        order = torch.arange(n) if self.generator is None else torch.randperm(n, generator=self.generator)
        for i in range(len(self)):
            yield self.data.take(order[i * self.batch_size : (i + 1) * self.batch_size])

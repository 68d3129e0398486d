"""Synthetic book of loans: numeric bureau features, categorical application fields."""
import numpy as np
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler, SequentialSampler

from . import pl

N_NUMERIC = 32
CARDINALITIES = (8, 5, 12, 40, 3, 24)  # region, housing, purpose, occupation, channel, vintage


def simulate_book(rows, seed):
    rng = np.random.default_rng(seed)
    numeric = rng.standard_normal((rows, N_NUMERIC)).astype(np.float32)
    cats = np.stack([rng.integers(0, c, rows) for c in CARDINALITIES], axis=1)
    beta = rng.standard_normal(N_NUMERIC) * 0.35
    logit = numeric @ beta + 0.6 * numeric[:, 0] * numeric[:, 1] - 0.4 * np.abs(numeric[:, 2])
    for j, c in enumerate(CARDINALITIES):
        logit += (rng.standard_normal(c) * 0.3)[cats[:, j]]
    logit -= 1.6
    label = rng.random(rows) < 1.0 / (1.0 + np.exp(-logit))
    return numeric, cats.astype(np.int64), label.astype(np.float32)


class LoanTable(Dataset):
    """Indexed by a list of row numbers, returns the whole batch at once."""

    def __init__(self, numeric, cats, label):
        self.numeric = torch.from_numpy(numeric)
        self.cats = torch.from_numpy(cats)
        self.label = torch.from_numpy(label)

    def __len__(self):
        return len(self.label)

    def __getitem__(self, rows):
        rows = torch.as_tensor(rows)
        return {"num": self.numeric[rows], "cat": self.cats[rows], "y": self.label[rows]}


class LoanDataModule(pl.LightningDataModule):
    n_numeric = N_NUMERIC
    cardinalities = CARDINALITIES
    n_regions = CARDINALITIES[0]

    def __init__(self, rows, batch_size, seed, val_fraction=0.1):
        super().__init__()
        self.rows = rows
        self.batch_size = batch_size
        self.seed = seed
        self.val_fraction = val_fraction

    def setup(self, stage=None):
        numeric, cats, label = simulate_book(self.rows, self.seed)
        cut = int(self.rows * (1 - self.val_fraction))
        mean, std = numeric[:cut].mean(0), numeric[:cut].std(0)
        numeric = (numeric - mean) / (std + 1e-6)
        self.train_set = LoanTable(numeric[:cut], cats[:cut], label[:cut])
        self.val_set = LoanTable(numeric[cut:], cats[cut:], label[cut:])

    def _loader(self, table, sampler, drop_last):
        batches = BatchSampler(sampler, self.batch_size, drop_last)
        return DataLoader(table, sampler=batches, batch_size=None)

    def train_dataloader(self):
        return self._loader(self.train_set, RandomSampler(self.train_set), True)

    def val_dataloader(self):
        return self._loader(self.val_set, SequentialSampler(self.val_set), False)

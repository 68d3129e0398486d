import lightning as L
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from .genes import select_variable
from .simulate import droplet_counts


class Cells(Dataset):
    def __init__(self, counts, donor):
        self.counts = counts
        self.donor = donor

    def __len__(self):
        return self.counts.shape[0]

    def __getitem__(self, i):
        row = self.counts[i].toarray()[0]
        return torch.from_numpy(row), np.float32(row.sum()), int(self.donor[i])


class CellData(L.LightningDataModule):
    donors = 6

    def __init__(self, cells, genes, keep, batch_size, seed):
        super().__init__()
        self.cells, self.genes, self.keep = cells, genes, keep
        self.batch_size, self.seed = batch_size, seed

    def setup(self, stage=None):
        counts, donor = droplet_counts(self.cells, self.genes, 12, self.donors, self.seed)
        counts, self.chosen = select_variable(counts, self.keep)
        self.train_set = Cells(counts, donor)

    def train_dataloader(self):
        return DataLoader(self.train_set, batch_size=self.batch_size, shuffle=True, drop_last=True)

"""Synthetic Sentinel-2-like parcel series: reflectance by date and band, with cloudy dates masked out."""
import lightning as L
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


def synth_parcels(n, cfg, seed):
    classes = np.random.default_rng(11)
    n_c, n_t, n_b = cfg["n_classes"], cfg["dates"], cfg["bands"]
    green = classes.uniform(0.2, 0.5, n_c)
    harvest = classes.uniform(0.55, 0.9, n_c)
    spectrum = classes.normal(size=(n_c, 2, n_b))

    rng = np.random.default_rng(seed)
    y = rng.integers(n_c, size=n)
    t = np.linspace(0, 1, n_t)[None]
    start = (green[y] + rng.normal(scale=0.05, size=n))[:, None]
    stop = (harvest[y] + rng.normal(scale=0.05, size=n))[:, None]
    canopy = 1 / (1 + np.exp(-(t - start) / 0.04)) - 1 / (1 + np.exp(-(t - stop) / 0.03))
    x = canopy[..., None] * spectrum[y, 0][:, None] + (1 - canopy[..., None]) * spectrum[y, 1][:, None]
    x = x + rng.normal(scale=0.9, size=x.shape) + rng.normal(scale=0.5, size=(n, 1, n_b))
    clear = rng.random((n, n_t)) > cfg["cloud_rate"]
    clear[:, 0] = True
    return (torch.from_numpy(x.astype(np.float32)), torch.from_numpy(clear),
            torch.from_numpy(y.astype(np.int64)))


class ParcelSeries(Dataset):
    def __init__(self, x, clear, y):
        self.x, self.clear, self.y = x, clear, y

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.clear[i], self.y[i]

    def __getitems__(self, indices):
        idx = torch.as_tensor(indices)
        return self.x[idx], self.clear[idx], self.y[idx]


class AugmentCollate:
    """Gets a whole batch from ``__getitems__``; drops dates and jitters band gains."""

    def __init__(self, date_dropout, band_jitter):
        self.date_dropout = date_dropout
        self.band_jitter = band_jitter

    def __call__(self, batch):
        x, clear, y = batch
        gain = 1 + self.band_jitter * torch.randn(x.shape[0], 1, x.shape[2])
        keep = torch.rand(clear.shape) >= self.date_dropout
        keep[:, 0] = True
        return x * gain, clear & keep, y


def passthrough(batch):
    return batch


class ParcelDataModule(L.LightningDataModule):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg

    def setup(self, stage=None):
        if hasattr(self, "train_set"):
            return
        f, seed = self.cfg["fields"], self.cfg["seed"]
        self.train_set = ParcelSeries(*synth_parcels(f["n_train"], f, seed))
        self.val_set = ParcelSeries(*synth_parcels(f["n_val"], f, seed + 1))

    def train_dataloader(self):
        c = self.cfg["loader"]
        return DataLoader(self.train_set, batch_size=c["batch_size"], shuffle=True, drop_last=True,
                          collate_fn=AugmentCollate(c["date_dropout"], c["band_jitter"]))

    def val_dataloader(self):
        return DataLoader(self.val_set, batch_size=2 * self.cfg["loader"]["batch_size"], collate_fn=passthrough)

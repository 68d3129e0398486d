"""Synthetic regional catalog (stand-in for the network data, which we may not redistribute)."""
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from preprocessing import build_pipeline


def _envelope(n, onset, rise, decay, fs):
    t = (np.arange(n) - onset) / fs
    env = np.zeros(n)
    pos = t > 0
    env[pos] = (1 - np.exp(-t[pos] / rise)) * np.exp(-t[pos] / decay)
    return env


def _coloured(rng, n, rows, power):
    spec = rng.normal(size=(rows, n // 2 + 1)) + 1j * rng.normal(size=(rows, n // 2 + 1))
    f = np.maximum(np.arange(n // 2 + 1), 1.0)
    return np.fft.irfft(spec * f ** power, n=n)


def simulate_event(rng, n, fs, blast):
    ps = rng.uniform(3.0, 9.0)
    p_on = int(n * 0.3)
    s_on = int(p_on + ps * fs)
    s_ratio = rng.uniform(0.5, 1.2) if blast else rng.uniform(0.9, 2.4)
    p_gain = np.array([[1.0], [0.45], [0.4]])
    s_gain = np.array([[0.5], [1.0], [0.95]])
    x = p_gain * _coloured(rng, n, 3, -0.35) * _envelope(n, p_on, 0.08, 2.2, fs)
    x = x + s_ratio * s_gain * _coloured(rng, n, 3, -0.5) * _envelope(n, s_on, 0.25, 4.0, fs)
    if blast:
        # short-period surface wave and ripple firing
        rg_on = int(s_on + 1.5 * fs)
        t = np.arange(n) / fs
        rg = np.sin(2 * np.pi * rng.uniform(1.2, 2.2) * t) * _envelope(n, rg_on, 0.8, 3.5, fs)
        x = x + rng.uniform(0.0, 0.4) * x.std() * 4 * rg
        delay = int(rng.uniform(0.02, 0.06) * fs)
        x[:, delay:] += 0.6 * x[:, : n - delay]
    return (x / (np.abs(x).max() + 1e-9)).astype(np.float32)


class Catalog:
    def __init__(self, n_events, cfg, seed):
        c = cfg["catalog"]
        rng = np.random.default_rng(seed)
        n = int(c["record_s"] * c["fs"])
        self.labels = (rng.random(n_events) < c["blast_fraction"]).astype(np.float32)
        self.records = np.stack([simulate_event(rng, n, c["fs"], bool(b)) for b in self.labels])
        self.event_ids = [f"ev{seed % 1000:03d}_{i:05d}" for i in range(n_events)]

    def __len__(self):
        return len(self.labels)


def noise_templates(cfg, seed):
    c = cfg["catalog"]
    rng = np.random.default_rng(seed)
    n = int(c["record_s"] * c["fs"])
    out = [_coloured(rng, n, 3, rng.uniform(-1.0, -0.4)) for _ in range(c["noise_templates"])]
    return np.stack(out).astype(np.float32)


class WaveformDataset(Dataset):
    def __init__(self, catalog, pipeline, seed, train):
        self.catalog = catalog
        self.pipeline = pipeline
        self.seed = seed
        self.train = train
        self.epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return len(self.catalog)

    def __getitem__(self, i):
        rng = np.random.default_rng((self.seed, self.epoch if self.train else 0, i))
        x = self.pipeline(self.catalog.records[i], rng)
        return torch.from_numpy(np.ascontiguousarray(x)), torch.tensor(self.catalog.labels[i])


def build_loaders(cfg):
    fs, seed = cfg["catalog"]["fs"], cfg["seed"]
    templates = noise_templates(cfg, seed + 7)
    train_set = WaveformDataset(Catalog(cfg["catalog"]["n_train"], cfg, seed),
                                build_pipeline(cfg, fs, templates, train=True), seed, train=True)
    val_set = WaveformDataset(Catalog(cfg["catalog"]["n_val"], cfg, seed + 1),
                              build_pipeline(cfg, fs, templates, train=False), seed + 1, train=False)
    gen = torch.Generator().manual_seed(seed)
    train = DataLoader(train_set, batch_size=cfg["optim"]["batch_size"], shuffle=True,
                       drop_last=True, generator=gen)
    val = DataLoader(val_set, batch_size=cfg["eval"]["batch_size"])
    return train, val

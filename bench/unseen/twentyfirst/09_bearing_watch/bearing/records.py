"""Recordings of the test rig and the windows that are cut from them."""
from typing import List, Tuple

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

FAULTS = ("healthy", "inner_race", "outer_race", "ball", "imbalance")
# fault frequencies in multiples of the shaft speed
ORDERS = {"inner_race": 7.92, "outer_race": 5.08, "ball": 4.71}


class RecordingStore:
    """Simulated test rig: int16 recordings as they come from the DAQ."""

    def __init__(self, n: int, length: int, fs: float, full_scale_g: float, seed: int):
        rng = np.random.default_rng(seed)
        self.labels = rng.integers(0, len(FAULTS), size=n)
        self.shaft_hz = rng.uniform(95.0, 180.0, size=n)
        self.counts = np.empty((n, length), dtype=np.int16)
        t = np.arange(length) / fs
        ring = np.arange(96) / fs
        for i in range(n):
            x = rng.normal(scale=0.35, size=length)
            x += 0.5 * np.sin(2 * np.pi * self.shaft_hz[i] * t + rng.uniform(0, 6.28))
            fault = FAULTS[self.labels[i]]
            if fault == "imbalance":
                x += rng.uniform(0.3, 0.8) * np.sin(2 * np.pi * self.shaft_hz[i] * t)
                x *= 1.0 + 0.15 * np.sin(2 * np.pi * self.shaft_hz[i] * t)
            elif fault in ORDERS:
                x += self._impacts(rng, ORDERS[fault] * self.shaft_hz[i], fs, length, ring)
            self.counts[i] = np.clip(x * 32768.0 / full_scale_g, -32768, 32767).astype(np.int16)

    @staticmethod
    def _impacts(rng, rate_hz, fs, length, ring):
        period = fs / rate_hz
        hits = np.arange(rng.uniform(0, period), length - len(ring) - 2, period)
        hits = (hits + rng.normal(scale=0.01 * period, size=hits.shape)).clip(0, length - len(ring) - 1).astype(int)
        carrier = rng.choice([2300.0, 5100.0, 9500.0])
        pulse = np.exp(-ring * 1400.0) * np.sin(2 * np.pi * carrier * ring)
        train = np.zeros(length)
        index = hits[:, None] + np.arange(len(ring))
        np.add.at(train, index, rng.uniform(0.5, 1.2, size=(len(hits), 1)) * pulse)
        return train

    def __len__(self):
        return len(self.labels)


class SpindleWindows(Dataset):
    def __init__(self, store: RecordingStore, records: np.ndarray, window: int, pipeline, jitter: bool):
        self.store = store
        self.records = records
        self.window = window
        self.pipeline = pipeline
        self.jitter = jitter

    def __len__(self):
        return len(self.records)

    def _start(self) -> int:
        slack = self.store.counts.shape[1] - self.window
        if not self.jitter:
            return slack // 2
        return int(torch.randint(0, slack + 1, ()))

    def __getitem__(self, i: int) -> Tuple[torch.Tensor, int]:
        rec = self.records[i]
        start = self._start()
        x = self.pipeline(self.store.counts[rec, start : start + self.window])
        return torch.from_numpy(x), int(self.store.labels[rec])


class StratifiedSampler(Sampler[int]):
    """Every fault appears equally often; the surplus of the large ones rotates."""

    def __init__(self, labels: np.ndarray, seed: int):
        self.groups: List[np.ndarray] = [np.flatnonzero(labels == c) for c in np.unique(labels)]
        self.per_class = int(np.median([len(g) for g in self.groups]))
        self.seed = seed
        self.epoch = 0

    def __len__(self):
        return self.per_class * len(self.groups)

    def __iter__(self):
        rng = np.random.default_rng((self.seed, self.epoch))
        self.epoch += 1
        picks = [np.resize(rng.permutation(g), self.per_class) for g in self.groups]
        order = np.concatenate(picks)
        rng.shuffle(order)
        return iter(order.tolist())


def make_loader(dataset: SpindleWindows, cfg, train: bool) -> DataLoader:
    sampler = StratifiedSampler(dataset.store.labels[dataset.records], cfg.seed) if train else None
    return DataLoader(
        dataset,
        batch_size=cfg.batch_size,
        sampler=sampler,
        shuffle=False,
        drop_last=train,
        num_workers=cfg.workers,
        persistent_workers=cfg.workers > 0 and train,
        prefetch_factor=4 if cfg.workers > 0 else None,
    )

"""Simulated courier trips, bucketing and collation."""
from dataclasses import dataclass
from typing import List, NamedTuple

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from .config import CityConfig

PAD = 0  # zone ids start at 1


class TripBatch(NamedTuple):
    zones: torch.Tensor      # [B, T]
    minute: torch.Tensor     # [B, T], quarter hours of the day
    dwell: torch.Tensor      # [B, T], standardised log minutes
    lengths: torch.Tensor    # [B]
    target: torch.Tensor     # [B], zone of the stop after the last one


@dataclass
class Trip:
    zones: np.ndarray
    minute: np.ndarray
    dwell: np.ndarray
    target: int


def simulate(cfg: CityConfig) -> List[Trip]:
    """Couriers leave a hub and sweep outward with a preferred heading per hub and hour."""
    rng = np.random.default_rng(cfg.seed)
    hubs = rng.uniform(8, cfg.grid - 8, size=(cfg.hubs, 2))
    heading = rng.uniform(0, 2 * np.pi, size=cfg.hubs)
    trips = []
    for _ in range(cfg.trips):
        hub = rng.integers(cfg.hubs)
        n = int(rng.integers(cfg.min_stops, cfg.max_stops + 1)) + 1
        start = rng.integers(24, 56)
        turn = heading[hub] + 0.08 * start + np.cumsum(rng.normal(0.12, 0.2, size=n))
        reach = rng.gamma(2.0, 0.45, size=n)
        xy = hubs[hub] + np.cumsum(np.stack([np.cos(turn), np.sin(turn)], 1) * reach[:, None], axis=0)
        xy = np.abs(xy)
        xy = (cfg.grid - 1) - np.abs((cfg.grid - 1) - xy)
        cell = np.clip(np.rint(xy), 0, cfg.grid - 1).astype(np.int64)
        zones = 1 + cell[:, 0] * cfg.grid + cell[:, 1]
        dwell = rng.normal(size=n).astype(np.float32)
        minute = (start + np.cumsum(0.3 + 0.1 * np.abs(dwell))).astype(np.int64) % 96
        trips.append(Trip(zones[:-1], minute[:-1], dwell[:-1], int(zones[-1])))
    return trips


class TripDataset(Dataset):
    def __init__(self, trips: List[Trip]):
        self.trips = trips
        self.lengths = np.array([len(t.zones) for t in trips])

    def __len__(self):
        return len(self.trips)

    def __getitem__(self, i):
        return self.trips[i]


class BucketBatchSampler(Sampler[List[int]]):
    """Batches of trips with about equal length; batch order is random."""

    def __init__(self, lengths: np.ndarray, batch_size: int, seed: int, shuffle: bool = True):
        self.lengths, self.batch_size, self.seed, self.shuffle = lengths, batch_size, seed, shuffle
        self.epoch = 0

    def __len__(self):
        return -(-len(self.lengths) // self.batch_size)

    def __iter__(self):
        rng = np.random.default_rng((self.seed, self.epoch))
        jitter = rng.uniform(-1.5, 1.5, size=len(self.lengths)) if self.shuffle else 0.0
        order = np.argsort(self.lengths + jitter, kind="stable")
        batches = [order[i : i + self.batch_size].tolist() for i in range(0, len(order), self.batch_size)]
        if self.shuffle:
            rng.shuffle(batches)
        self.epoch += 1
        yield from batches


def collate(trips: List[Trip]) -> TripBatch:
    lengths = np.array([len(t.zones) for t in trips])
    shape = (len(trips), int(lengths.max()))
    zones = np.full(shape, PAD, dtype=np.int64)
    minute = np.zeros(shape, dtype=np.int64)
    dwell = np.zeros(shape, dtype=np.float32)
    for row, trip in enumerate(trips):
        n = lengths[row]
        zones[row, :n], minute[row, :n], dwell[row, :n] = trip.zones, trip.minute, trip.dwell
    target = np.array([t.target for t in trips])
    return TripBatch(*map(torch.from_numpy, (zones, minute, dwell, lengths, target)))


def make_loader(trips: List[Trip], batch_size: int, seed: int, train: bool) -> DataLoader:
    data = TripDataset(trips)
    sampler = BucketBatchSampler(data.lengths, batch_size, seed, shuffle=train)
    return DataLoader(data, batch_sampler=sampler, collate_fn=collate)

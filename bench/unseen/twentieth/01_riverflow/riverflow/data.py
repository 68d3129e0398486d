"""Synthetic basins: a bucket model driven by seasonal weather."""
import numpy as np
import torch

from .registry import DATASETS


def simulate(n_basins, days, rng):
    t = np.arange(days)
    area = rng.uniform(0.5, 2.0, n_basins)
    slope = rng.uniform(0.02, 0.15, n_basins)
    storage_k = rng.uniform(0.03, 0.12, n_basins)
    season = np.sin(2 * np.pi * (t[None] / 365.25 + rng.uniform(0, 1, (n_basins, 1))))
    temp = 8 + 11 * season + rng.normal(0, 2, (n_basins, days))
    wet = rng.random((n_basins, days)) < 0.35
    rain = wet * rng.gamma(0.8, 9.0, (n_basins, days))
    snow = np.zeros(n_basins)
    store = np.full(n_basins, 40.0)
    flow = np.zeros((n_basins, days))
    swe = np.zeros((n_basins, days))
    for d in range(days):
        cold = temp[:, d] < 0
        snow += np.where(cold, rain[:, d], 0)
        melt = np.minimum(snow, np.maximum(temp[:, d], 0) * 2.5)
        snow -= melt
        inflow = np.where(cold, 0, rain[:, d]) + melt
        quick = slope * inflow
        store += inflow - quick - np.maximum(temp[:, d], 0) * 0.08
        store = np.maximum(store, 1.0)
        base = storage_k * store
        store -= base
        flow[:, d] = area * (quick + base)
        swe[:, d] = snow
    doy = 2 * np.pi * (t % 365.25) / 365.25
    forcing = np.stack([
        rain, temp, swe, np.maximum(temp, 0),
        np.broadcast_to(np.sin(doy), rain.shape), np.broadcast_to(np.cos(doy), rain.shape),
        np.log1p(rain), np.log1p(flow),
    ], -1)
    return forcing, np.stack([area, slope, storage_k], -1), np.log1p(flow)


@DATASETS.register("basins")
class BasinWindows:
    def __init__(self, n_basins, years, window, horizon, samples_per_epoch, split, seed):
        rng = np.random.default_rng(seed)
        forcing, static, target = simulate(n_basins, int(years * 365.25), rng)
        cut = int(forcing.shape[1] * 0.8)
        mean, std = forcing[:, :cut].mean((0, 1)), forcing[:, :cut].std((0, 1)) + 1e-6
        part = slice(0, cut) if split == "train" else slice(cut, None)
        self.forcing = torch.from_numpy(((forcing - mean) / std)[:, part]).float()
        self.static = torch.from_numpy((static - static.mean(0)) / static.std(0)).float()
        self.target = torch.from_numpy(target[:, part]).float()
        self.window, self.horizon = window, horizon
        self.n_features, self.n_static = self.forcing.shape[-1], self.static.shape[-1]
        self.size = samples_per_epoch if split == "train" else 512
        self.split = split
        self.offsets = torch.arange(window)
        self.ahead = torch.arange(window, window + horizon)

    def batches(self, batch_size, generator):
        n_basins, days = self.target.shape
        if self.split != "train":
            generator = torch.Generator().manual_seed(99)
        last = days - self.window - self.horizon
        for _ in range(self.size // batch_size):
            basin = torch.randint(n_basins, (batch_size,), generator=generator)
            start = torch.randint(last, (batch_size,), generator=generator)
            yield {
                "basin": basin,
                "start": start,
                "x": self.forcing[basin[:, None], start[:, None] + self.offsets],
                "s": self.static[basin],
                "y": self.target[basin[:, None], start[:, None] + self.ahead],
            }

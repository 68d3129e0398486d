import lightning as L
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, RandomSampler


def simulate_fleet(engines, sensors, rng):
    """Runs to failure: hidden wear grows, sensors respond with their own lag and noise."""
    mix = rng.normal(0, 1, (3, sensors))
    runs = []
    for _ in range(engines):
        life = int(rng.integers(130, 320))
        t = np.arange(life)
        wear = (t / life) ** rng.uniform(1.5, 3.5)
        load = np.cumsum(rng.normal(0, 0.08, life))
        load -= load.mean()
        hidden = np.stack([wear, load, wear * load], -1)
        runs.append(((hidden @ mix + rng.normal(0, 0.25, (life, sensors))).astype(np.float32), life))
    return runs


class Windows(Dataset):
    def __init__(self, runs, window, max_rul=125.0):
        allx = np.concatenate([r for r, _ in runs])
        mean, std = allx.mean(0), allx.std(0) + 1e-6
        self.runs = [torch.from_numpy((r - mean) / std) for r, _ in runs]
        self.index = [(i, s, life - s - window) for i, (_, life) in enumerate(runs) for s in range(0, life - window, 2)]
        self.window, self.max_rul = window, max_rul

    def __len__(self):
        return len(self.index)

    def __getitem__(self, k):
        i, s, rul = self.index[k]
        return self.runs[i][s:s + self.window], min(rul, self.max_rul) / self.max_rul


class FleetData(L.LightningDataModule):
    def __init__(self, engines, window, sensors, batch_size, windows_per_epoch, seed):
        super().__init__()
        self.save_hyperparameters()

    def setup(self, stage=None):
        h = self.hparams
        rng = np.random.default_rng(h.seed)
        runs = simulate_fleet(h.engines, h.sensors, rng)
        cut = int(0.85 * len(runs))
        self.train, self.val = Windows(runs[:cut], h.window), Windows(runs[cut:], h.window)

    def train_dataloader(self):
        sampler = RandomSampler(self.train, num_samples=self.hparams.windows_per_epoch)
        return DataLoader(self.train, self.hparams.batch_size, sampler=sampler, drop_last=True)

    def val_dataloader(self):
        keep = torch.utils.data.Subset(self.val, range(0, len(self.val), 8))
        return DataLoader(keep, 4 * self.hparams.batch_size)

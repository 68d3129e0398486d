"""Image shards: one compressed archive per production lot, with images, labels and the camera gain."""
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import Dataset


def _texture(rng, kind, size):
    yy, xx = np.mgrid[0:size, 0:size] / size
    angle = np.pi * kind / 10 + rng.normal(0, 0.05)
    wave = np.sin(2 * np.pi * (3 + kind % 4) * (xx * np.cos(angle) + yy * np.sin(angle)) + rng.uniform(0, 6.28))
    cx, cy, r = rng.uniform(0.2, 0.8, 2).tolist() + [0.05 + 0.02 * (kind % 5)]
    spot = np.exp(-((xx - cx) ** 2 + (yy - cy) ** 2) / (2 * r * r))
    tint = np.array([1.0, 0.8 + 0.02 * kind, 0.9])
    img = (0.5 + 0.2 * wave + 0.3 * spot)[..., None] * tint + rng.normal(0, 0.03, (size, size, 1))
    return (np.clip(img, 0, 1) * 255).astype(np.uint8)


def write_shards(folder, shards, per_shard, size, classes, seed):
    rng = np.random.default_rng(seed)
    paths = []
    for s in range(shards):
        labels = rng.integers(0, classes, per_shard)
        images = np.stack([_texture(rng, int(k), size) for k in labels])
        path = Path(folder) / f"lot_{s:03d}.npz"
        np.savez_compressed(path, images=images, labels=labels, gain=rng.uniform(0.9, 1.1, per_shard))
        paths.append(path)
    return paths


class LotArchive:
    """One opened lot."""

    def __init__(self, path):
        self.path = Path(path)
        self.fields = np.load(self.path)

    def __len__(self):
        return len(self.fields["labels"])

    def sample(self, i):
        return self.fields["images"][i], int(self.fields["labels"][i]), float(self.fields["gain"][i])


class DefectDataset(Dataset):
    """All lots as one dataset; archives are opened once and kept."""

    def __init__(self, paths, transform=None):
        self.lots = [LotArchive(p) for p in paths]
        self.where = [(k, i) for k, lot in enumerate(self.lots) for i in range(len(lot))]
        self.transform = transform

    def __len__(self):
        return len(self.where)

    def __getitem__(self, n):
        k, i = self.where[n]
        image, label, gain = self.lots[k].sample(i)
        x = torch.from_numpy(image).permute(2, 0, 1).float().div_(255.0 * gain)
        if self.transform is not None:
            x = self.transform(x)
        return x, label

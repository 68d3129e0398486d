import numpy as np
import torch
from torch.utils.data import Dataset

from density import density_map

TILE = 320


def render_tile(rng):
    """Rocky ground with colonies of small dark-and-white birds."""
    coarse = rng.normal(0.45, 0.12, (TILE // 16, TILE // 16, 3))
    ground = np.kron(coarse, np.ones((16, 16, 1))) + rng.normal(0, 0.03, (TILE, TILE, 3))
    n_colonies = rng.integers(4, 8)
    centres = rng.uniform(30, TILE - 30, (n_colonies, 2))
    points = np.concatenate([
        c + rng.normal(0, rng.uniform(14, 40), (rng.integers(25, 70), 2)) for c in centres
    ])
    points = points[((points > 3) & (points < TILE - 4)).all(1)]
    for x, y in points.astype(int):
        ground[y - 2:y + 3, x - 1:x + 2] = 0.08
        ground[y - 1:y + 2, x] = 0.92
    return np.clip(ground * 255, 0, 255).astype(np.uint8), points


class ColonyTiles(Dataset):
    def __init__(self, n_tiles, crop, crops_per_tile, sigma, seed, train):
        rng = np.random.default_rng(seed)
        self.tiles = [render_tile(rng) for _ in range(n_tiles)]
        self.crop, self.per_tile, self.sigma, self.train = crop, crops_per_tile, sigma, train
        self.seed = seed
        self.rng = np.random.default_rng(seed)

    def __len__(self):
        return len(self.tiles) * self.per_tile

    def __getitem__(self, i):
        image, points = self.tiles[i // self.per_tile]
        rng = self.rng if self.train else np.random.default_rng(self.seed * 1000 + i)
        y0, x0 = rng.integers(0, TILE - self.crop, 2)
        patch = image[y0:y0 + self.crop, x0:x0 + self.crop]
        local = points - (x0, y0)
        local = local[((local >= 0) & (local < self.crop)).all(1)]
        if self.train and rng.random() < 0.5:
            patch = patch[:, ::-1]
            local = np.stack([self.crop - 1 - local[:, 0], local[:, 1]], 1)
            local = local[local[:, 0] >= 0]
        gain = rng.uniform(0.85, 1.15) if self.train else 1.0
        x = torch.from_numpy(np.ascontiguousarray(patch.transpose(2, 0, 1))).float().mul_(gain / 255).sub_(0.45)
        target = density_map(local, (self.crop, self.crop), self.sigma)
        return x, torch.from_numpy(target)[None], torch.tensor(float(len(local)))

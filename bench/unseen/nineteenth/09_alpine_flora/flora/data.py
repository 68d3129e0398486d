"""Environmental atlas (relief, climate, soil layers) and relevés drawn on it."""
from dataclasses import dataclass

import numpy as np
import torch
from scipy.ndimage import gaussian_filter
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


@dataclass
class Atlas:
    layers: torch.Tensor  # (layers, rows, cols), standardised
    niche: torch.Tensor  # (species, layers)
    offset: torch.Tensor  # (species,)

    @property
    def prevalence(self):
        return torch.sigmoid(self.offset)


def build_atlas(cfg):
    rng = np.random.default_rng(cfg.seed)
    layers = np.empty((cfg.layers, cfg.rows, cfg.cols), dtype=np.float32)
    for index in range(cfg.layers):
        scale = 2.0 + 1.5 * (index % 6)
        field = gaussian_filter(rng.standard_normal((cfg.rows, cfg.cols), dtype=np.float32), scale)
        layers[index] = (field - field.mean()) / field.std()
    niche = rng.normal(0, 0.5, (cfg.species, cfg.layers)) * (rng.random((cfg.species, cfg.layers)) < 0.3)
    offset = rng.normal(-2.2, 0.7, cfg.species)
    return Atlas(
        torch.from_numpy(layers),
        torch.from_numpy(niche.astype(np.float32)),
        torch.from_numpy(offset.astype(np.float32)),
    )


class Releves(Dataset):
    """Site position in the atlas, survey effort and the species list as a 0/1 vector."""

    def __init__(self, cfg, atlas, split):
        generator = torch.Generator().manual_seed(cfg.seed + (split == "val"))
        count = cfg.sites if split == "train" else cfg.sites // 8
        half = cfg.window // 2
        self.row = torch.randint(half, cfg.rows - half, (count,), generator=generator)
        self.col = torch.randint(half, cfg.cols - half, (count,), generator=generator)
        self.effort = torch.rand(count, generator=generator) * 1.5 + 0.25
        local = atlas.layers[:, self.row, self.col].T
        logit = local @ atlas.niche.T + atlas.offset + self.effort.log()[:, None]
        self.present = (torch.rand(logit.shape, generator=generator) < logit.sigmoid()).to(torch.uint8)

    def __len__(self):
        return len(self.row)

    def __getitems__(self, indices):
        index = torch.as_tensor(indices)
        return {
            "row": self.row[index],
            "col": self.col[index],
            "effort": self.effort[index],
            "present": self.present[index].float(),
        }


def build_loaders(cfg, atlas, rank, world_size):
    train, val = Releves(cfg, atlas, "train"), Releves(cfg, atlas, "val")
    sampler = DistributedSampler(train, world_size, rank, shuffle=True, seed=cfg.seed, drop_last=True)
    train_loader = DataLoader(train, cfg.batch_size, sampler=sampler, collate_fn=lambda batch: batch, drop_last=True)
    val_sampler = DistributedSampler(val, world_size, rank, shuffle=False)
    val_loader = DataLoader(val, cfg.batch_size * 2, sampler=val_sampler, collate_fn=lambda batch: batch)
    return train_loader, val_loader
